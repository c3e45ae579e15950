// Package drivertest is a node without a kernel to mount in: a mount table in
// memory, file systems that are superblocks in sparse files, and a driver that
// serves on them over gRPC. With lvmfake it makes whole CSI sequences, crashes,
// restarts and reboots run in milliseconds and without root.
//
// What is real: the driver, gRPC, folders and files at staging and target paths,
// the signatures on the devices (so clearing them and probing them is real work).
// What is not: the files in a mounted file system. Whatever is written below a
// target path lands in the folder under it.
package drivertest
