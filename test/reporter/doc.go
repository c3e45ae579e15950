// Package reporter holds the capacity reporter to its promises on a real API
// server: what it writes, how often, on what condition, beside whom, and after
// the server was gone. The pools are made up; nothing here needs root.
package reporter
