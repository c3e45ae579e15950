// Package sanity asks the driver what csi-sanity, the conformance suite of the CSI
// community, asks every driver.
//
// Its own tests do so on fakes: the real driver on a real socket, with LVM in memory,
// mounts in a table and sparse files for devices. Package test/sanity does the same on
// real LVM, and its command stock runs the stock csi-sanity program.
//
// csi-sanity skips what a driver does not advertise, so a driver that loses a
// capability by mistake would pass with fewer questions. Here a skip is a failure
// unless it is in the list of [Unadvertised] and the driver really does not advertise it.
package sanity
