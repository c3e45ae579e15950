// Package chart holds the Helm chart and the manifests that are made from it to what
// they promise: they say the same, a real API server takes them, their roles are narrow,
// wrong values are refused, and StorageClasses that could not work are, too.
package chart
