// Package image tests the container image: the Dockerfile as it ships is built with
// buildah on a base image made of Debian's packages, so neither an engine nor a registry
// is needed, and what is in it is run.
package image
