package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// takeDownTime bounds all that is done after the command.
const takeDownTime = time.Minute

// remains is what the command leaves on the host.
type remains struct {
	log   io.Writer
	loops []*loopDevice
	space string           // the mount namespace made for the command; empty before that
	seen  map[string]error // by kernel name of a stacked device, what came of its removal
}

// takeDown leaves the host as it was. It has to work after ctx has ended.
func (r *remains) takeDown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeDownTime)
	defer cancel()
	for _, device := range r.loops {
		resumeAll(ctx, filepath.Base(device.path))
	}
	errs := []error{r.endSurvivors(ctx)}
	for _, device := range r.loops {
		errs = append(errs, r.remove(ctx, filepath.Base(device.path)))
	}
	for _, device := range r.loops {
		errs = append(errs, device.detach(ctx))
	}
	return errors.Join(errs...)
}

// resumeAll resumes what is suspended on the named device, from the bottom up: a process
// that waits for it can be killed only then.
func resumeAll(ctx context.Context, name string) {
	for _, holder := range holders(name) {
		text, _ := os.ReadFile(filepath.Join("/sys/class/block", holder, "dm/suspended"))
		if strings.TrimSpace(string(text)) == "1" {
			// A failure shows when the device is removed.
			_ = dmsetup(ctx, "resume", deviceMapperName(holder))
		}
		resumeAll(ctx, holder)
	}
}

// endSurvivors kills what the command started and left running, such as LVM's dmeventd:
// everything in its mount namespace. It returns when they are gone.
func (r *remains) endSurvivors(ctx context.Context) error {
	if r.space == "" {
		return nil
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	told := map[int]bool{}
	for {
		left := killIn(r.space, func(pid int, name string) {
			if !told[pid] {
				logf(r.log, "the command left %s (process %d) running: ending it", name, pid)
				told[pid] = true
			}
		})
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d processes that the command left do not end", left)
		case <-tick.C:
		}
	}
}

// killIn returns how many processes were in the mount namespace.
func killIn(space string, tell func(pid int, name string)) int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	found := 0
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		// The handle is taken before the look, so the look and the kill are at one process.
		process, err := os.FindProcess(pid)
		if err != nil {
			continue
		}
		if link, err := os.Readlink(filepath.Join("/proc", entry.Name(), "ns/mnt")); err == nil && link == space {
			name, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "comm"))
			tell(pid, strings.TrimSpace(string(name)))
			_ = process.Kill()
			found++
		}
		_ = process.Release()
	}
	return found
}

// remove takes down what is on the named device, the topmost first. A device can be on
// several.
func (r *remains) remove(ctx context.Context, name string) error {
	var errs []error
	for _, holder := range holders(name) {
		if _, seen := r.seen[holder]; !seen {
			err := r.remove(ctx, holder)
			if err == nil {
				err = r.removeOne(ctx, holder, name)
			}
			r.seen[holder] = err
			errs = append(errs, err) // once
		}
	}
	return errors.Join(errs...)
}

func (r *remains) removeOne(ctx context.Context, holder, on string) error {
	mapped := deviceMapperName(holder)
	if mapped == "" {
		return fmt.Errorf("%s is stacked on %s and is not device mapper's: stop it", holder, on)
	}
	logf(r.log, "the command left %s on %s: removing it", mapped, on)
	return dmsetup(ctx, "remove", "--retry", mapped)
}

func dmsetup(ctx context.Context, args ...string) error {
	path, err := lookPath("dmsetup")
	if err != nil {
		return err
	}
	if !hostUdev() {
		args = append(args, "--noudevsync")
	}
	out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	if err != nil {
		reason, _, _ := strings.Cut(string(out), "\n") // the rest repeats it
		return fmt.Errorf("dmsetup %s: %w: %s", strings.Join(args, " "), err, reason)
	}
	return nil
}
