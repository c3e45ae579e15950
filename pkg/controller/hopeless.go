package controller

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// Reasons of events on claims that can never get a volume.
const (
	ReasonImmediateBinding      = "ImmediateBinding"
	ReasonInvalidParameters     = "InvalidClassParameters"
	ReasonUnknownPool           = "UnknownPool"
	ReasonUnsupportedAccessMode = "UnsupportedAccessMode"
	ReasonUnsupportedSelector   = "UnsupportedSelector"
	ReasonSelectedNodeGone      = "SelectedNodeGone"
)

// hopelessReasons are all of them, for metrics.
func hopelessReasons() []string {
	return []string{
		ReasonImmediateBinding, ReasonInvalidParameters, ReasonUnknownPool,
		ReasonUnsupportedAccessMode, ReasonUnsupportedSelector, ReasonSelectedNodeGone,
	}
}

// finding is why a claim gets no volume, and what would help.
type finding struct {
	reason  string
	message string
}

// mostNames bounds lists of names in messages; an event holds 1024 bytes.
const mostNames = 8

// hopeless looks for everything that keeps the driver from ever making a volume
// for the unbound claim. The class is the driver's. What passes by itself (a
// pool that is full, a node that is down) is not for here.
func hopeless(claim *v1.PersistentVolumeClaim, class *storagev1.StorageClass, nodes *nodeBook) []finding {
	var found []finding
	add := func(reason, format string, args ...any) {
		found = append(found, finding{reason: reason, message: fmt.Sprintf(format, args...)})
	}
	if class.VolumeBindingMode == nil || *class.VolumeBindingMode == storagev1.VolumeBindingImmediate {
		add(ReasonImmediateBinding, "StorageClass %s binds immediately, before a pod has a node, so nobody can say on which node's disks "+
			"the volume belongs. Delete the class and create it again with volumeBindingMode: WaitForFirstConsumer", class.Name)
	}
	parameters, err := capacity.ParseClassParameters(class.Parameters)
	if err != nil {
		add(ReasonInvalidParameters, "The parameters of StorageClass %s are wrong: %s. Delete the class and create it again with the right ones",
			class.Name, strings.ReplaceAll(err.Error(), "\n", "; "))
	} else if message := unknownPool(class.Name, parameters.Pool, nodes); message != "" {
		add(ReasonUnknownPool, "%s", message)
	}
	if modes := severalNodes(claim); len(modes) > 0 {
		add(ReasonUnsupportedAccessMode, "A local volume is on one node, so there is none with access mode %s. "+
			"Create the claim again with ReadWriteOnce (several pods of one node may share it) or ReadWriteOncePod", strings.Join(modes, ", "))
	}
	if claim.Spec.Selector != nil {
		add(ReasonUnsupportedSelector, "A claim with a selector gets a PersistentVolume that exists already, and none is made for it. "+
			"Create the claim again without the selector")
	}
	return found
}

// unknownPool says that no node has the pool. It needs a node that publishes
// something: where none does, nothing is known.
func unknownPool(class, pool string, nodes *nodeBook) string {
	names, publishing, unreadable := nodes.publishedPools()
	if slices.Contains(names, pool) || publishing == unreadable {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "StorageClass %s wants pool %q, and no node has a pool of that name", class, pool)
	if near := capacity.ClosestName(pool, names); near != "" {
		fmt.Fprintf(&b, " (%s is meant?)", near)
	}
	fmt.Fprintf(&b, ". There are: %s", firstNames(names))
	if unreadable > 0 {
		fmt.Fprintf(&b, "; what %d nodes publish cannot be read", unreadable)
	}
	b.WriteString(". Add the pool to the pools file of the nodes, or delete the class and create it again with a pool that exists")
	return b.String()
}

func firstNames(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	text := strings.Join(names[:min(len(names), mostNames)], ", ")
	if more := len(names) - mostNames; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// severalNodes are the claim's access modes that mean more than one node. A
// volume has to offer all modes that the claim names.
func severalNodes(claim *v1.PersistentVolumeClaim) []string {
	var modes []string
	for _, mode := range claim.Spec.AccessModes {
		if mode != v1.ReadWriteOnce && mode != v1.ReadWriteOncePod {
			modes = append(modes, string(mode))
		}
	}
	return modes
}
