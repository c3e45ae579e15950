package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/csi-local/csi-local/test/vm"
)

type flags struct {
	options       vm.Options
	cutAfter      time.Duration
	console       bool
	help          bool
	printPackages bool
}

// flagSet binds every flag to f; usage() and the parser read the same set.
func flagSet(f *flags) *flag.FlagSet {
	set := flag.NewFlagSet("vm", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Usage = func() {}
	o := &f.options
	set.Func("disk", "an empty disk of this `SIZE`, such as 5G; gone afterwards; may be repeated", func(text string) error {
		size, err := vm.ParseSize(text)
		o.Disks = append(o.Disks, vm.Disk{SizeBytes: size})
		return err
	})
	set.Func("disk-file", "a disk whose content is kept in a file, `PATH[:SIZE]`; made when it is missing; may be repeated",
		func(text string) error {
			disk, err := parseDiskFile(text)
			o.Disks = append(o.Disks, disk)
			return err
		})
	set.Func("mem", "memory of a throwaway kernel, as a `SIZE` (default 1G)", func(text string) error {
		size, err := vm.ParseSize(text)
		o.MemoryMiB = int(size >> 20)
		if err == nil && o.MemoryMiB == 0 {
			return fmt.Errorf("%s is less than a MiB", text)
		}
		return err
	})
	set.Func("share", "a host folder that can be written to, `HOST[:GUEST]`; may be repeated", func(text string) error {
		host, guest, ok := strings.Cut(text, ":")
		if !ok {
			guest = host
		}
		if host == "" || !strings.HasPrefix(guest, "/") {
			return errors.New("use HOST:GUEST, GUEST absolute, such as results:/results")
		}
		o.Shares = append(o.Shares, vm.Share{Host: host, Guest: guest})
		return nil
	})
	set.DurationVar(&o.Timeout, "timeout", 0, "end everything after this `TIME`, such as 10m, and exit with 124; 0 for no limit")
	set.BoolVar(&o.Udev, "udev", false, "run a udevd with the host's rules")
	set.Func("env", "a variable for the command, `NAME=VALUE`; may be repeated", func(text string) error {
		o.Env = append(o.Env, text)
		return nil
	})
	set.Func("backend", "where the command runs, `auto|uml|host` (default auto)", func(text string) error {
		o.Backend = vm.Backend(text)
		return nil
	})
	set.Func("modules", "modules to load beside the usual ones, `NAME[,NAME...]`; may be repeated", func(text string) error {
		o.Modules = append(o.Modules, strings.Split(text, ",")...)
		return nil
	})
	set.BoolVar(&o.RAID6, "raid6", false, "make a throwaway kernel fit for RAID 6, which takes a second longer to boot")
	set.StringVar(&o.Dir, "dir", "", "working `FOLDER` of the command (default: this one)")
	set.DurationVar(&f.cutAfter, "cut-after", 0, "cut the power after this `TIME`, boot included, and exit with 137")
	set.BoolVar(&f.console, "console", false, "show on stderr what the throwaway kernel prints")
	set.BoolVar(&f.printPackages, "print-packages", false, "print the Debian packages this needs, and exit")
	return set
}

func parseFlags(args []string) (flags, error) {
	var f flags
	set := flagSet(&f)
	err := set.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		f.help = true
		return f, nil
	case err != nil:
		return f, err
	case f.printPackages:
		return f, nil
	case set.NArg() == 0:
		return f, errors.New("no command given: add -- and the command, such as vm --disk 2G -- lsblk")
	case f.cutAfter < 0:
		return f, fmt.Errorf("--cut-after %v is negative: give a positive time, such as 5s", f.cutAfter)
	}
	f.options.PowerCut = f.cutAfter > 0
	f.options.Command = set.Args()
	return f, nil
}

func parseDiskFile(text string) (vm.Disk, error) {
	path, size, ok := cutLast(text, ":")
	if !ok {
		return vm.Disk{File: text}, nil
	}
	if path == "" {
		return vm.Disk{}, errors.New("use PATH:SIZE, such as disk.img:2G, or the PATH of a file that exists")
	}
	n, err := vm.ParseSize(size)
	return vm.Disk{File: path, SizeBytes: n}, err
}

func cutLast(text, separator string) (before, after string, found bool) {
	if i := strings.LastIndex(text, separator); i >= 0 {
		return text[:i], text[i+len(separator):], true
	}
	return text, "", false
}

const usageHead = `Usage: vm [flags] -- COMMAND [ARGUMENT...]

Runs a command where it has device mapper and empty disks of its own, and leaves
the host as it was. Output, exit status and working directory are as if the
command had been run directly. It finds its disks in VM_DISKS and, in VM_BACKEND,
where it runs:

  uml    a throwaway kernel (user-mode Linux); needs neither root nor device
         mapper on the host; whatever is written outside of the disks and shares
         is gone afterwards
  host   the host's own kernel, on loop devices; needs root and device mapper
  auto   host where that can be had, else uml; which one, and why, is on stderr

Exit status: the command's own; 124 time limit, 125 the machine failed, 126 and
127 the command could not be started, 137 power cut, 2 wrong flags.

Flags:
`

func usage() string {
	var f flags
	var text strings.Builder
	text.WriteString(usageHead)
	flagSet(&f).VisitAll(func(fl *flag.Flag) {
		name, help := flag.UnquoteUsage(fl)
		fmt.Fprintf(&text, "  --%s\n        %s\n", strings.TrimSpace(fl.Name+" "+name), help)
	})
	return text.String()
}
