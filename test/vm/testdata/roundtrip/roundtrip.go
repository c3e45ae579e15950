// Package roundtrip has tests whose results vm's own tests look at. It is in testdata, so
// that ./... does not run it.
package roundtrip

func double(n int) int { return 2 * n }
