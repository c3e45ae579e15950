// Package policy applies what is in deploy/policy to a real API server, and tries
// what it must allow and what it must refuse.
package policy
