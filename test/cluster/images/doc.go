// Package images makes the container images that the shipped manifests name, as archives
// that `ctr image import` takes. Neither an engine nor a registry is needed: our own images
// come from the shipped Dockerfiles by buildah, the sidecars from their Go modules at the
// versions that the manifests name, and the images for tests from Debian's busybox-static.
//
// Everything is kept in the user's cache folder and made again only when what it is made
// from has changed. Images of our own need root, buildah, and the first time mmdebstrap and
// a way to Debian's mirrors.
package images
