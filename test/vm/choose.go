package vm

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// choice is a backend and why it was taken, for the message on stderr.
type choice struct {
	backend Backend
	reason  string
}

// hostFacts are what the choice depends on.
type hostFacts struct {
	problem string   // why the host backend cannot work; empty when it can
	udev    bool     // a udevd runs on the host
	missing []string // guest folders of shares that the host does not have
}

const hostRemedy = "run as root on a kernel with device mapper and dmsetup, or use the uml backend"

// choose is pure; an impossible wish is an error and never something else instead.
func choose(o Options, host func() hostFacts) (choice, error) {
	if o.Backend == UML {
		return choice{UML, "as asked"}, nil
	}
	if o.Backend == Auto && o.PowerCut {
		return choice{UML, "the power is to be cut"}, nil
	}
	if o.Backend == Auto && len(o.Modules) > 0 {
		return choice{UML, "modules are to be loaded"}, nil
	}
	problem := hostProblem(o, host())
	if o.Backend == Host {
		if problem != "" {
			return choice{}, &MissingError{Backend: Host, Problem: problem, Remedy: hostRemedy}
		}
		return choice{Host, "as asked"}, nil
	}
	if problem != "" {
		return choice{UML, "on the host, " + problem}, nil
	}
	return choice{Host, "the host has root, loop devices and device mapper"}, nil
}

func hostProblem(o Options, facts hostFacts) string {
	switch {
	case facts.problem != "":
		return facts.problem
	case o.Udev && !facts.udev:
		return "no udevd is running"
	case len(facts.missing) > 0:
		return "there is no folder " + strings.Join(facts.missing, ", ")
	}
	return ""
}

// probeHost looks only when it is called.
func probeHost(ctx context.Context, o Options) func() hostFacts {
	return func() hostFacts {
		facts := hostFacts{problem: deviceMapperProblem(ctx), udev: hostUdev()}
		for _, share := range o.Shares {
			if _, err := os.Stat(share.Guest); err != nil {
				facts.missing = append(facts.missing, share.Guest)
			}
		}
		return facts
	}
}

func hostUdev() bool {
	_, err := os.Stat("/run/udev/control")
	return err == nil
}

// neededTargets are those LVM's linear, striped, thin, snapshot and RAID volumes are of.
var neededTargets = []string{"linear", "striped", "thin-pool", "snapshot", "raid"}

// deviceMapperProblem asks the kernel, after it has been given the chance to load what it
// keeps in modules.
func deviceMapperProblem(ctx context.Context) string {
	if os.Geteuid() != 0 {
		return "this user is not root"
	}
	if _, err := os.Stat(loopControl); err != nil {
		return loopControl + " is missing"
	}
	dmsetup, err := lookPath("dmsetup")
	if err != nil {
		return "dmsetup is not installed"
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if modprobe, err := lookPath("modprobe"); err == nil {
		for _, module := range []string{"dm-mod", "dm-thin-pool", "dm-snapshot", "dm-raid"} {
			// What is built in cannot be loaded; the targets tell in the end.
			_ = exec.CommandContext(ctx, modprobe, "-q", module).Run()
		}
	}
	out, err := exec.CommandContext(ctx, dmsetup, "targets").Output()
	if err != nil {
		return "the kernel has no device mapper"
	}
	if missing := missingTargets(string(out)); len(missing) > 0 {
		return fmt.Sprintf("device mapper has no target %s", strings.Join(missing, ", "))
	}
	return ""
}

// missingTargets reads what dmsetup targets prints: a name and a version a line.
func missingTargets(listed string) []string {
	var have []string
	for line := range strings.Lines(listed) {
		if fields := strings.Fields(line); len(fields) > 0 {
			have = append(have, fields[0])
		}
	}
	var missing []string
	for _, target := range neededTargets {
		if !slices.Contains(have, target) {
			missing = append(missing, target)
		}
	}
	return missing
}
