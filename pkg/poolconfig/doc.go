// Package poolconfig reads the pools file: which pools a node offers, under
// which names, and how they are used.
//
// The file is parsed strictly. All problems are reported at once, each with its
// line and column, because the file is written by hand, mounted into many pods
// and read far from where it was written. A file with a problem is not used in
// part: [Watch] keeps what was valid before.
package poolconfig
