package orphans

import (
	"context"
	"errors"
	"time"
)

// Volume is a volume that CreateVolume made, as the node knows it.
type Volume struct {
	// ID is the CSI volume ID, Name the CSI name.
	ID, Name string
	// UUID tells the volume from every other that ever had its name.
	UUID string
	Pool string
	// SizeBytes is what a pod sees, PoolBytes what it takes from its pool.
	SizeBytes, PoolBytes int64
	// Filesystem is what was made on it; empty if nothing was.
	Filesystem string
	// Used tells that a pod has had it at least once.
	Used bool
	// Seen tells that its PersistentVolume was seen.
	Seen bool
	// Orphan is since when it is marked as an orphan, in whole seconds of the
	// node's wall clock; zero if it is not.
	Orphan time.Time
	// Attributes are the volume context as CreateVolume answers it.
	Attributes map[string]string
}

// Kind says whether a volume's bytes can be somebody's.
type Kind string

// The kinds; see the package's documentation.
const (
	Leaked   Kind = "leaked"
	Retained Kind = "retained"
)

// Kind is what the volume would be, or is, as an orphan.
func (v Volume) Kind() Kind {
	if v.Used || v.Seen {
		return Retained
	}
	return Leaked
}

// IsOrphan tells whether the volume is marked as an orphan. Then its bytes are
// in no figure that the node publishes.
func (v Volume) IsOrphan() bool { return !v.Orphan.IsZero() }

// Errors of this package, and of what it is given.
var (
	// ErrChanged: the volume is not what it was when it was looked at.
	ErrChanged = errors.New("the volume has changed meanwhile")
	// ErrNotOrphan: no orphan has that name.
	ErrNotOrphan = errors.New("no such orphan")
	// ErrExists: the orphan has a PersistentVolume after all, or another has its name.
	ErrExists = errors.New("the PersistentVolume exists")
	// ErrDoubt: the API server's answers cannot be taken for the truth now.
	ErrDoubt = errors.New("the API server's answers are in doubt")
	// ErrNoNode: the API server has no Node object of this node.
	ErrNoNode = errors.New("the API server does not know this node")
)

// Node holds the volumes. Its methods may be called at any time from any goroutine.
type Node interface {
	// OrphanCandidates returns all volumes that CreateVolume made and that are not
	// being deleted, from the last known state of LVM.
	OrphanCandidates(ctx context.Context) ([]Volume, error)
	// MarkVolume sets Seen and Orphan of the volume, if nothing of it has changed
	// since (else the error matches [ErrChanged]) and no call for it is running. It
	// gives up, without an effect, rather than keep calls for the volume waiting.
	MarkVolume(ctx context.Context, v Volume, seen bool, orphan time.Time) error
	// DeleteOrphan deletes the volume, wiping it as its policy says, if it still is
	// the same orphan (else: [ErrChanged]). confirm is called when no call for
	// the volume can run any more; its error ends the deletion. When ctx ends
	// before the deletion does, ctx's error is returned and the deletion goes on.
	DeleteOrphan(ctx context.Context, v Volume, confirm func(context.Context) error) error
}

// API answers what exists in the cluster. Its methods may be called at any time
// from any goroutine; an error means that nothing is known.
type API interface {
	// PersistentVolume looks for the one of that name. With cached the answer may
	// be behind, else it is the newest.
	PersistentVolume(ctx context.Context, name string, cached bool) (Answer, error)
	// NodeUID is the UID of this node's Node object, the newest; [ErrNoNode] if
	// there is none.
	NodeUID(ctx context.Context) (string, error)
}

// Answer is what the API server said of one PersistentVolume. Driver and Handle
// are empty if it is no CSI volume.
type Answer struct {
	Found          bool
	Driver, Handle string
}

// Notice is something that an operator should know.
type Notice struct {
	// Reason is one word in CamelCase, as events have it.
	Reason  string
	Message string
	Warning bool
}
