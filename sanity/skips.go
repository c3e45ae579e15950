package sanity

import (
	"fmt"
	"time"
)

// Skip is a reason for which csi-sanity may leave specs out.
type Skip struct {
	// Message is what csi-sanity says.
	Message string
	// Needs is the capability that would make it ask, as [Capabilities] spell it.
	Needs string
	// Why says why the driver does not have it.
	Why string
}

// Unadvertised are the capabilities that this driver means not to have.
func Unadvertised() []Skip {
	const (
		later      = "snapshots and clones are not built yet"
		noAttach   = "a local disk is not attached to a node: it is there or it is not"
		noGroups   = "snapshots of several volumes at one instant are not built"
		noModify   = "a volume has no parameter that could change while it exists"
		nodeGrows  = "the node alone expands: it has the disk and the file system"
		nodeHealth = "the node alone knows the health of its disks"
	)
	return []Skip{
		{"Snapshot not supported", "controller/CREATE_DELETE_SNAPSHOT", later},
		{"CreateSnapshot not supported", "controller/CREATE_DELETE_SNAPSHOT", later},
		{"DeleteSnapshot not supported", "controller/CREATE_DELETE_SNAPSHOT", later},
		{"ListSnapshots not supported", "controller/LIST_SNAPSHOTS", later},
		{"GetSnapshot not supported", "controller/GET_SNAPSHOT", later},
		{"SNAPSHOT_ACCESSIBILITY_CONSTRAINTS not supported", "plugin/SNAPSHOT_ACCESSIBILITY_CONSTRAINTS", later},
		{"Volume Cloning not supported", "controller/CLONE_VOLUME", later},
		{"GroupControllerService not supported", "plugin/GROUP_CONTROLLER_SERVICE", noGroups},
		{"ControllerPublishVolume not supported", "controller/PUBLISH_UNPUBLISH_VOLUME", noAttach},
		{"ControllerUnpublishVolume not supported", "controller/PUBLISH_UNPUBLISH_VOLUME", noAttach},
		{"Controller Publish, UnpublishVolume not supported", "controller/PUBLISH_UNPUBLISH_VOLUME", noAttach},
		{"Modify volume not supported", "controller/MODIFY_VOLUME", noModify},
		{"Modify Volume not supported", "controller/MODIFY_VOLUME", noModify},
		{"ControllerModifyVolume not supported", "controller/MODIFY_VOLUME", noModify},
		{"ControllerExpandVolume not supported", "controller/EXPAND_VOLUME", nodeGrows},
		{"ControllerGetVolumeHealth not supported", "controller/GET_VOLUME_HEALTH", nodeHealth},
		{"ControllerListVolumeHealth not supported", "controller/LIST_VOLUME_HEALTH", nodeHealth},
	}
}

// pendingUpstream are specs that csi-sanity itself has switched off for every driver.
func pendingUpstream() []string {
	return []string{"pagination should detect volumes added between pages and accept tokens when the last volume from a page is deleted"}
}

// Outcome is how a spec ended.
type Outcome string

const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failed"
	Skipped Outcome = "skipped"
	// Pending specs are switched off in csi-sanity's own source.
	Pending Outcome = "pending"
)

// Spec is one question of csi-sanity and how the driver did.
type Spec struct {
	// Variant is the volume type that was asked about; empty from the stock command.
	Variant string
	// Name is unique within a variant.
	Name    string
	Outcome Outcome
	// Message is why it failed or was skipped.
	Message string
	// Output is what the spec printed; of failed ones only.
	Output string
	// Took is how long it ran.
	Took time.Duration
}

// Count is how many specs ended in each way.
func Count(specs []Spec) map[Outcome]int {
	count := map[Outcome]int{}
	for _, s := range specs {
		count[s.Outcome]++
	}
	return count
}

// Unjustified returns a line for each spec that was left out without a right to be:
// its message is in no entry of allowed, or the driver advertises what it needs.
func Unjustified(specs []Spec, allowed []Skip, advertised Capabilities) []string {
	byMessage := map[string]Skip{}
	for _, skip := range allowed {
		byMessage[skip.Message] = skip
	}
	var lines []string
	for _, s := range specs {
		switch s.Outcome {
		case Skipped:
			skip, known := byMessage[s.Message]
			if !known {
				lines = append(lines, fmt.Sprintf("%s: skipped for a reason that is not in the list: %q", s.Name, s.Message))
			} else if advertised[skip.Needs] {
				lines = append(lines, fmt.Sprintf("%s: skipped (%s) although the driver advertises %s", s.Name, s.Message, skip.Needs))
			}
		case Pending:
			if !isPendingUpstream(s.Name) {
				lines = append(lines, s.Name+": switched off in csi-sanity, and not in the list")
			}
		}
	}
	return lines
}

func isPendingUpstream(name string) bool {
	for _, suffix := range pendingUpstream() {
		if len(name) >= len(suffix) && name[len(name)-len(suffix):] == suffix {
			return true
		}
	}
	return false
}
