package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/csi-local/csi-local/test/nodeproc"
	"github.com/csi-local/csi-local/test/screen"
	"github.com/csi-local/csi-local/test/vm"
)

const (
	thickPool, thickGroup = "pool-ssd", "vg-ssd"
	thinPool, thinGroup   = "pool-thin", "vg-thin"
	thinPoolLV            = "thin" // the thin pool's own name in its volume group
)

// node is the machine on which the demo runs, seen as a node of a cluster.
type node struct {
	p          *screen.Printer
	dir        string
	disks      []string
	binary     string         // csi-local
	driver     *nodeproc.Node // nil before it was started
	driverName string         // as it registers with kubelet
	start      picture        // before the first volume
	// pod is the UID of the pod that uses the volumes; kubelet has it in its paths.
	pod                        string
	database, archive, journal *volume
}

// step is one step of the demo. do fails if anything is not as it should be.
type step struct {
	title string
	do    func(n *node, ctx context.Context) error
}

// steps are all steps in their order.
func steps() []step {
	return []step{
		{"An administrator makes two pools", (*node).makePools},
		{"The driver is started", (*node).startDriver},
		{"kubelet finds and registers the driver", (*node).register},
		{"A claim for 512 MiB, thick, ext4", (*node).createDatabase},
		{"A claim for 1 GiB, thin, XFS", (*node).createArchive},
		{"A claim for 256 MiB, thick, raw block", (*node).createJournal},
		{"The pod starts: its volumes are staged (mkfs, mount)", (*node).stageAll},
		{"… and published into the pod", (*node).publishAll},
		{"The pod writes", (*node).write},
		{"Both filesystems grow while they are mounted", (*node).expand},
		{"kubelet asks for usage", (*node).stats},
		{"A pod with an inline volume comes and goes", (*node).inline},
		{"A claim that does not fit", (*node).createTooLarge},
		{"An expansion that does not fit", (*node).expandTooFar},
		{"The pod restarts: its data is there", (*node).restart},
		{"The pod ends: unpublished, unstaged", (*node).endPod},
		{"The claims are deleted: wiped, then removed", (*node).deleteAll},
		{"The next tenant reads zeros, end to end", (*node).nextTenant},
		{"The driver stops", (*node).stopDriver},
		{"The pools are as they were", (*node).compare},
	}
}

// inside runs all steps and returns the exit status.
func inside(ctx context.Context, p *screen.Printer, binary string) int {
	dir, err := os.MkdirTemp("", "demo-node-")
	if err != nil {
		p.Failure(err, "")
		return 1
	}
	defer os.RemoveAll(dir)
	n := &node{
		p: p, dir: dir, disks: strings.Fields(os.Getenv(vm.EnvDisks)), binary: binary,
		pod: "3f0c1e52-6a51-4b0e-9d7c-0d5a5b1f7c11",
	}
	begin := time.Now()
	done, err := n.runAll(ctx)
	if err != nil {
		log := n.lastLog()
		if n.driver != nil {
			err = errors.Join(err, n.driver.Kill())
		}
		p.Failure(err, log)
		return 1
	}
	p.Summary(done, "in all, with the looks at LVM in between", time.Since(begin))
	p.Success("Everything was as it should be, and the free extents are those of the start.")
	return 0
}

func (n *node) runAll(ctx context.Context) ([]screen.Finished, error) {
	var done []screen.Finished
	var before picture
	all := steps()
	for i, s := range all {
		n.p.Step(i+1, len(all), s.title)
		start := time.Now()
		err := n.p.During("working", func() error { return s.do(n, ctx) })
		if err != nil {
			return done, fmt.Errorf("step %d, %q: %w", i+1, s.title, err)
		}
		done = append(done, screen.Finished{Title: s.title, Took: time.Since(start)})
		after, err := n.look(ctx)
		if err != nil {
			return done, err
		}
		for _, c := range after.changesSince(before) {
			showChange(n.p, c)
		}
		before = after
	}
	return done, nil
}

func (n *node) groups() []string { return []string{thickGroup, thinGroup} }

func (n *node) look(ctx context.Context) (picture, error) {
	return observe(ctx, n.groups(), n.dir)
}

// makePools does what an administrator does once, before the driver is installed.
func (n *node) makePools(ctx context.Context) error {
	if len(n.disks) < 2 {
		return fmt.Errorf("two empty disks are needed, and %s names %d", vm.EnvDisks, len(n.disks))
	}
	for _, command := range [][]string{
		{"vgcreate", thickGroup, n.disks[0]},
		{"vgcreate", thinGroup, n.disks[1]},
		{"lvcreate", "--type", "thin-pool", "-l", "80%FREE", "-n", thinPoolLV, thinGroup},
	} {
		if err := n.command(ctx, command...); err != nil {
			return err
		}
	}
	var err error
	n.start, err = n.look(ctx)
	return err
}

// command runs one and shows it as it would be typed.
func (n *node) command(ctx context.Context, argv ...string) error {
	start := time.Now()
	output, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, output)
	}
	n.p.Command(strings.Join(argv, " "), time.Since(start))
	return nil
}

// compare holds the pools against what they were before the first volume.
func (n *node) compare(ctx context.Context) error {
	now, err := n.look(ctx)
	if err != nil {
		return err
	}
	var problems []error
	for _, group := range n.groups() {
		before, after := n.start.freeExtents[group], now.freeExtents[group]
		n.p.Note("%-8s %d free extents at the start, %d now", group, before, after)
		if before != after {
			problems = append(problems, fmt.Errorf("%s had %d free extents and has %d", group, before, after))
		}
	}
	for _, c := range now.changesSince(n.start) {
		// How full the thin pool's metadata are may differ; volumes and mounts may not.
		if c.kind != changed {
			problems = append(problems, fmt.Errorf("left behind or missing: %s %s", c.source, c.text))
		}
	}
	return errors.Join(problems...)
}
