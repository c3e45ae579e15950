// Package controller runs csi-local controller as it ships, with the rights that
// it ships with, against a real API server and a real controller manager. The
// test plays the nodes, the provisioners on them, and the users.
package controller
