package controller

import (
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
)

// LostNodeAnnotation returns the key of the StorageClass annotation that says
// what happens to the claims of lost nodes; see [LostNodePolicy]. It is read
// from the class that the PersistentVolume names, at the time of acting.
func LostNodeAnnotation(driverName string) string { return driverName + "/on-lost-node" }

// LostNodePolicy is what a class says about claims whose volume is on a lost node.
type LostNodePolicy string

const (
	// PolicyKeep, the default, leaves bound claims alone.
	PolicyKeep LostNodePolicy = "keep"
	// PolicyDeleteClaim deletes the claim, so that what owns it (a StatefulSet)
	// makes a new, empty one elsewhere.
	PolicyDeleteClaim LostNodePolicy = "delete-claim"
)

// policyOf reads the annotation of a class. A class that is gone, or one whose
// annotation is no policy, keeps; the latter is an error.
func policyOf(driverName string, class *storagev1.StorageClass) (LostNodePolicy, error) {
	if class == nil || class.Provisioner != driverName {
		return PolicyKeep, nil
	}
	key := LostNodeAnnotation(driverName)
	value, said := class.Annotations[key]
	switch policy := LostNodePolicy(value); {
	case !said:
		return PolicyKeep, nil
	case policy == PolicyKeep, policy == PolicyDeleteClaim:
		return policy, nil
	}
	return PolicyKeep, fmt.Errorf("annotation %s is %q; the policies are %s and %s; claims are kept", key, value, PolicyKeep, PolicyDeleteClaim)
}
