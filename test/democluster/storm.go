package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/csi-local/csi-local/test/cluster"
	"github.com/csi-local/csi-local/test/cluster/installed"
)

// storm fills both nodes at once, so far that one more volume fits on none.
func (d *demo) storm(ctx context.Context) error {
	for _, n := range d.c.Nodes() {
		bytes, err := installed.PublishedBytes(ctx, d.c, n)
		if err != nil {
			return err
		}
		// One volume of the StatefulSet is on each node.
		size, err := installed.FillBytes(bytes-dbBytes, stormPerNode)
		if err == nil && d.sizeBytes != 0 && size != d.sizeBytes {
			err = fmt.Errorf("volumes of %d bytes, and on another node of %d", size, d.sizeBytes)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", n.Name(), err)
		}
		d.sizeBytes = size
	}
	d.stormPods = stormPerNode * len(d.c.Nodes())
	d.p.Note("%d pods, %d for each node, with volumes of %d MiB. A ninth fits on neither.", d.stormPods, stormPerNode, d.sizeBytes/mib)
	var pods, yaml []string
	for i := range d.stormPods {
		name := fmt.Sprintf("storm-%02d", i)
		pods = append(pods, name)
		yaml = append(yaml, claimAndPod(name, d.sizeBytes, ""))
	}
	began := time.Now()
	if err := d.apply(ctx, "storm.yaml", strings.Join(yaml, "---")); err != nil {
		return err
	}
	if err := d.ready(ctx, began, pods...); err != nil {
		return err
	}
	if _, err := d.print(ctx, "get", "pods,pvc,pv"); err != nil {
		return err
	}
	if err := d.wantClaims(ctx, d.stormPods+2); err != nil {
		return err
	}
	if err := d.noFailedCreate(ctx); err != nil {
		return err
	}
	for _, n := range d.c.Nodes() {
		volumes, err := installed.LogicalVolumes(ctx, n)
		if err != nil {
			return err
		}
		if len(volumes) != stormPerNode+1 {
			return fmt.Errorf("%s has logical volumes %v, want %d", n.Name(), volumes, stormPerNode+1)
		}
	}
	return d.status(ctx)
}

// noFailedCreate counts volumes that were refused on the way.
func (d *demo) noFailedCreate(ctx context.Context) error {
	text, err := d.kubectl(ctx, "get", "events", "--field-selector", "reason=ProvisioningFailed", "-o", "name")
	if err != nil {
		return err
	}
	failed := strings.Fields(text)
	d.p.Note("%d volumes were refused on the way (events ProvisioningFailed)", len(failed))
	if len(failed) > 0 {
		messages, err := d.events(ctx, "", "ProvisioningFailed")
		return errors.Join(fmt.Errorf("volumes were refused:\n%s", strings.Join(messages, "\n")), err)
	}
	return nil
}

func (d *demo) tooMany(ctx context.Context) error {
	if err := d.apply(ctx, "one-more.yaml", claimAndPod("one-more", d.sizeBytes, "")); err != nil {
		return err
	}
	var message string
	err := installed.Until(ctx, patience, "the reason", func(ctx context.Context) (string, error) {
		messages, err := d.events(ctx, "one-more", "InsufficientLocalCapacity", "FailedScheduling")
		i := slices.IndexFunc(messages, func(m string) bool {
			return strings.Contains(m, installed.Pool) && strings.Contains(m, "requested") && strings.Contains(m, "left of")
		})
		if err != nil || i < 0 {
			return fmt.Sprintf("events %q", messages), err
		}
		message = messages[i]
		return "", nil
	})
	if err != nil {
		return err
	}
	text, err := d.print(ctx, "get", "pod", "one-more")
	if err != nil {
		return err
	}
	if !strings.Contains(text, "Pending") {
		return errors.New("the pod is not Pending")
	}
	d.p.Message(message)
	return nil
}

// grow adds a disk to node-1, and sees both figures change and the pod start.
func (d *demo) grow(ctx context.Context) error {
	n := d.c.Nodes()[0]
	before, err := installed.PublishedBytes(ctx, d.c, n)
	if err != nil {
		return err
	}
	watches := watching{demo: d, began: time.Now()}
	defer watches.end()
	if err := errors.Join(
		watches.start(ctx, "get", "csinode", n.Name(), "-w", "-o", countColumns),
		watches.start(ctx, "get", "node", n.Name(), "-w", "-o", annotationColumns),
	); err != nil {
		return err
	}
	began := time.Now()
	if err := d.onNode(ctx, n, "vgextend", installed.VolumeGroup, n.Disk(1)); err != nil {
		return err
	}
	d.p.Note("Fewer volumes are told once it is noticed, within half a minute: LVM keeps its text on each")
	d.p.Note("disk, and the new one has less room for it.")
	err = installed.Until(ctx, patience, "the CSINode", func(ctx context.Context) (string, error) {
		count, err := installed.VolumeCount(ctx, d.c, n)
		if err != nil || count >= maxVolumes || count < stormPerNode {
			return fmt.Sprintf("%d volumes", count), err
		}
		return "", nil
	})
	if err != nil {
		return err
	}
	d.p.Note("More bytes are told when they have lasted for a minute:")
	if err := d.ready(ctx, began, "one-more"); err != nil {
		return err
	}
	after, err := installed.PublishedBytes(ctx, d.c, n)
	if err == nil && after < before+d.sizeBytes {
		err = fmt.Errorf("%d bytes were published, and %d now", before, after)
	}
	return err
}

// watching prints what commands print while they run, each line that is another one.
type watching struct {
	*demo
	began time.Time
	wait  sync.WaitGroup
	stop  []context.CancelFunc
}

// start returns when the command has printed the state of now.
func (w *watching) start(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithCancel(ctx)
	w.stop = append(w.stop, cancel)
	cmd := exec.CommandContext(ctx, w.c.KubectlPath(), append([]string{"--kubeconfig", w.c.Kubeconfig()}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	w.p.Line("    $ kubectl %s &", args[0]+" "+args[1]+" "+args[2]+" -w")
	first := make(chan struct{})
	w.wait.Go(func() {
		w.follow(out, first)
		_ = cmd.Wait() // it is ended by a signal
	})
	select {
	case <-first:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (w *watching) follow(out io.Reader, first chan<- struct{}) {
	last := ""
	for scanner := bufio.NewScanner(out); scanner.Scan(); {
		line := strings.Join(strings.Fields(scanner.Text()), "  ")
		if line == last || strings.HasPrefix(line, "NAME ") {
			continue
		}
		w.p.Line("    %4d s  │ %s", int(time.Since(w.began).Seconds()), line)
		if last == "" {
			close(first)
		}
		last = line
	}
}

func (w *watching) end() {
	for _, stop := range w.stop {
		stop()
	}
	w.wait.Wait()
}

// calm deletes all but the StatefulSet.
func (d *demo) calm(ctx context.Context) error {
	began := time.Now()
	if _, err := d.kubectl(ctx, "delete", "pod,pvc", "-l", "app=storm", "--wait=false"); err != nil {
		return err
	}
	err := installed.Until(ctx, patience, "deleted volumes", func(ctx context.Context) (string, error) {
		for _, n := range d.c.Nodes() {
			volumes, err := installed.LogicalVolumes(ctx, n)
			if err != nil || len(volumes) != 1 {
				return fmt.Sprintf("%s has %v", n.Name(), volumes), err
			}
		}
		return "", d.wantClaims(ctx, 2)
	})
	if err != nil {
		return err
	}
	d.p.Timed(fmt.Sprintf("    %d volumes wiped and removed", d.stormPods+1), time.Since(began))
	for _, n := range d.c.Nodes() {
		if err := d.showVolumes(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) showVolumes(ctx context.Context, n *cluster.Node) error {
	return d.onNode(ctx, n, "lvs", "--units", "m", "-o", "lv_name,lv_size,vg_free", installed.VolumeGroup)
}
