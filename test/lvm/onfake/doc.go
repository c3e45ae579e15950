// Package onfake tests, on the fake LVM and so without root, what lvm and the packages
// that it must not know agree on.
package onfake
