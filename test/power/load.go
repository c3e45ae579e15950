package power

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"

	"github.com/csi-local/csi-local/test/nodeproc"
)

const (
	mib = int64(1) << 20
	// slotBytes is the unit of writing and checking.
	slotBytes = 256 << 10
	slotCount = 16
	pod       = "pod"
)

// worker makes random calls on volumes of its own, one after the other.
type worker struct {
	node    *nodeproc.Node
	journal *journal
	random  *rand.Rand
	prefix  string
	made    int
	live    []*nodeproc.Volume
}

// runLoad works until ctx ends or a call fails; the power cut comes first.
func runLoad(ctx context.Context, node *nodeproc.Node, j *journal, prefix string, seed uint64) error {
	const workers = 3
	errs := make([]error, workers)
	var wait sync.WaitGroup
	for i := range workers {
		w := &worker{node: node, journal: j, prefix: fmt.Sprintf("%s-%d", prefix, i),
			random: rand.New(rand.NewPCG(seed, uint64(i)))}
		wait.Go(func() {
			for errs[i] == nil && ctx.Err() == nil {
				errs[i] = w.step(ctx)
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

func (w *worker) step(ctx context.Context) error {
	if len(w.live) < 2 {
		return w.create(ctx)
	}
	i := w.random.IntN(len(w.live))
	switch v := w.live[i]; w.random.IntN(8) {
	case 0:
		return w.create(ctx)
	case 1, 2:
		w.live = append(w.live[:i], w.live[i+1:]...)
		return w.delete(ctx, v)
	case 3:
		return w.expand(ctx, v)
	default:
		return w.write(ctx, v)
	}
}

func (w *worker) create(ctx context.Context) error {
	w.made++
	claim := fact{Op: opCreate, Volume: fmt.Sprintf("%s-%d", w.prefix, w.made),
		FSType: []string{"", "ext4", "xfs"}[w.random.IntN(3)], Pool: []string{"thick", "thin"}[w.random.IntN(2)]}
	claim.SizeBytes = 16 * mib
	if claim.FSType == "xfs" {
		claim.SizeBytes = 320 * mib
	}
	v, err := createVolume(ctx, w.node, w.journal, claim)
	if err != nil {
		return err
	}
	w.live = append(w.live, v)
	if err := publish(ctx, w.node, *v); err != nil {
		return err
	}
	return w.write(ctx, v)
}

// createVolume records, calls CreateVolume and records the answer.
func createVolume(ctx context.Context, node *nodeproc.Node, j *journal, claim fact) (*nodeproc.Volume, error) {
	if err := j.record(claim); err != nil {
		return nil, err
	}
	v, err := node.Create(ctx, nodeproc.Spec{Name: claim.Volume, SizeBytes: claim.SizeBytes, FSType: claim.FSType,
		Parameters: map[string]string{"pool": claim.Pool}})
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", claim.Volume, err)
	}
	claim.Done, claim.ID, claim.CapacityBytes = true, v.ID, v.CapacityBytes
	return &v, j.record(claim)
}

func publish(ctx context.Context, node *nodeproc.Node, v nodeproc.Volume) error {
	if err := node.Stage(ctx, v); err != nil {
		return fmt.Errorf("stage %s: %w", v.Name, err)
	}
	if _, err := node.Publish(ctx, v, pod, false); err != nil {
		return fmt.Errorf("publish %s: %w", v.Name, err)
	}
	return nil
}

func (w *worker) expand(ctx context.Context, v *nodeproc.Volume) error {
	f := fact{Op: opExpand, Volume: v.Name, SizeBytes: v.CapacityBytes + 8*mib}
	if err := w.journal.record(f); err != nil {
		return err
	}
	if err := w.node.Expand(ctx, v, pod, f.SizeBytes); err != nil {
		return fmt.Errorf("expand %s: %w", v.Name, err)
	}
	f.Done, f.CapacityBytes = true, v.CapacityBytes
	return w.journal.record(f)
}

func (w *worker) delete(ctx context.Context, v *nodeproc.Volume) error {
	if err := withdraw(ctx, w.node, *v); err != nil {
		return err
	}
	return deleteVolume(ctx, w.node, w.journal, v.Name, v.ID)
}

func withdraw(ctx context.Context, node *nodeproc.Node, v nodeproc.Volume) error {
	if err := node.Unpublish(ctx, v, pod); err != nil {
		return fmt.Errorf("unpublish %s: %w", v.Name, err)
	}
	if err := node.Unstage(ctx, v); err != nil {
		return fmt.Errorf("unstage %s: %w", v.Name, err)
	}
	return nil
}

func deleteVolume(ctx context.Context, node *nodeproc.Node, j *journal, name, id string) error {
	f := fact{Op: opDelete, Volume: name}
	if err := j.record(f); err != nil {
		return err
	}
	if err := node.Delete(ctx, id); err != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	f.Done = true
	return j.record(f)
}

// write fills one slot (a file of its own, or a place on the raw device) and
// makes it durable; only then it counts as done.
func (w *worker) write(ctx context.Context, v *nodeproc.Volume) error {
	f := fact{Op: opWrite, Volume: v.Name, Slot: w.random.IntN(slotCount), Seed: w.random.Int64()}
	if err := w.journal.record(f); err != nil {
		return err
	}
	if err := writeSlot(w.node.TargetPath(*v, pod), v.FSType == "", f.Slot, content(f.Seed)); err != nil {
		return fmt.Errorf("write %s: %w", v.Name, err)
	}
	f.Done = true
	return w.journal.record(f)
}

// content is what a seed stands for.
func content(seed int64) []byte {
	random := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24), byte(seed >> 32), byte(seed >> 40), byte(seed >> 48), byte(seed >> 56)})
	data := make([]byte, slotBytes)
	_, _ = random.Read(data) // documented never to fail
	return data
}

func slotPlace(target string, block bool, slot int) (path string, offset int64) {
	if block {
		return target, int64(slot) * slotBytes
	}
	return filepath.Join(target, fmt.Sprintf("slot-%d", slot)), 0
}

func writeSlot(target string, block bool, slot int, data []byte) (err error) {
	path, offset := slotPlace(target, block, slot)
	flags := os.O_WRONLY
	if !block {
		flags |= os.O_CREATE
	}
	file, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.WriteAt(data, offset); err != nil {
		return err
	}
	if err := file.Sync(); err != nil || block {
		return err
	}
	// A new file is found again only if its folder is durable too.
	folder, err := os.Open(target)
	if err != nil {
		return err
	}
	defer folder.Close()
	return folder.Sync()
}

func checkSlot(target string, block bool, slot int, want []byte) error {
	path, offset := slotPlace(target, block, slot)
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(io.NewSectionReader(file, offset, int64(len(got))), got); err != nil {
		return fmt.Errorf("%s at %d: %w", path, offset, err)
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%s at %d: not what was written and synced", path, offset)
	}
	return nil
}
