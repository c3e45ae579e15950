package storm

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Record is what one storm has shown. Seconds are of the wall clock.
type Record struct {
	Name           string   `json:"name"`
	Tracking       Tracking `json:"tracking"`
	WithoutVolumes bool     `json:"withoutVolumes,omitempty"`
	Nodes          int      `json:"nodes"`
	PodsPerNode    int      `json:"podsPerNode"`
	FillPercent    int      `json:"fillPercent"`
	Seed           uint64   `json:"seed"`
	PodsPerSecond  float64  `json:"podsPerSecond"`
	Turns          int      `json:"turns,omitempty"`

	// DemandBytes are of all pods, CapacityBytes of all nodes, UsedBytes of all
	// volumes in the end.
	DemandBytes   int64 `json:"demandBytes"`
	CapacityBytes int64 `json:"capacityBytes"`
	UsedBytes     int64 `json:"usedBytes"`
	// Pods were created; Bound of them have a node, and what fits of the others
	// somewhere, StuckThatFit, should have one too.
	Pods         int `json:"pods"`
	Bound        int `json:"bound"`
	StuckThatFit int `json:"stuckThatFit"`
	// Volumes were made, FailedCreates is how often CreateVolume had no room.
	Volumes       int `json:"volumes"`
	FailedCreates int `json:"failedCreates"`
	// Misplaced pods have no bound volume on their node.
	Misplaced int `json:"misplaced"`

	// CreateSeconds is until the last pod was created, Seconds until the last pod
	// was bound that ever was, both since the first was created.
	CreateSeconds float64 `json:"createSeconds"`
	Seconds       float64 `json:"seconds"`
	// LatencyP50 and LatencyP99 are seconds from the pod to its node.
	LatencyP50 float64 `json:"latencyP50Seconds"`
	LatencyP99 float64 `json:"latencyP99Seconds"`
	// SchedulerKills are on purpose, SchedulerExits are not; Takeovers are how often
	// another process became the leader.
	SchedulerKills int `json:"schedulerKills,omitempty"`
	SchedulerExits int `json:"schedulerExits,omitempty"`
	Takeovers      int `json:"takeovers,omitempty"`
}

// Err tells what the plugin has promised and this storm has not kept, or is nil.
// It makes no sense for other kinds of tracking.
func (r Record) Err() error {
	var problems []error
	for what, count := range map[string]int{
		"volumes had no room": r.FailedCreates, "pods that fit have no node": r.StuckThatFit, "pods have no volume on their node": r.Misplaced,
	} {
		if count > 0 {
			problems = append(problems, fmt.Errorf("%s: %d %s", r.Name, count, what))
		}
	}
	return errors.Join(problems...)
}

// WriteRecord writes any record of this package to folder/name.json in one step.
func WriteRecord(folder, name string, record any) error {
	content, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	path := filepath.Join(folder, name+".json")
	if err := os.WriteFile(path+".tmp", append(content, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}
