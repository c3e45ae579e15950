package vm

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Backend says where the command runs.
type Backend string

const (
	// Auto takes Host where it can be had and Udev and PowerCut allow it, else UML.
	Auto Backend = "auto"
	// UML boots a throwaway user-mode Linux kernel.
	UML Backend = "uml"
	// Host uses loop devices on the kernel that is running already.
	Host Backend = "host"
)

// Names of the variables in the command's environment.
const (
	EnvBackend = "VM_BACKEND"
	EnvDisks   = "VM_DISKS"
	EnvUdev    = "VM_UDEV"
)

// MaxDisks is how many disks a machine can have: user-mode Linux knows sixteen, and
// the first is left out because the kernel would take it for its root.
const MaxDisks = 15

const (
	defaultMemoryMiB = 1024
	minMemoryMiB     = 64
	sectorBytes      = 512
)

// Disk is one block device of the machine.
type Disk struct {
	// SizeBytes is the size, a multiple of 512. It may be 0 for a File that exists,
	// which then keeps its size; a smaller File is extended, a larger one refused.
	SizeBytes int64
	// File holds the disk's content and is kept, so that a later machine sees the same
	// disk. Empty means a sparse file that vanishes with the machine.
	File string
}

// Share is a host folder that the command can write to.
type Share struct {
	Host  string // an existing folder
	Guest string // absolute; made when it is missing
}

// Options describe a machine and the command it runs.
type Options struct {
	// Command and its arguments; looked up in the PATH of the command's environment.
	Command []string
	// Dir is the command's working directory; empty means the caller's.
	Dir string
	// Env is added to the caller's environment, as KEY=VALUE; the last of a name wins.
	Env []string
	// Disks are at most MaxDisks.
	Disks []Disk
	// Shares are the host folders where writes are kept.
	Shares []Share
	// MemoryMiB is the memory of a throwaway kernel; 0 means 1024. It also bounds what
	// the command can write outside of its disks and shares.
	MemoryMiB int
	// Modules are loaded in a throwaway kernel beside BaseModules.
	Modules []string
	// RAID6 makes a throwaway kernel fit for RAID 6, and for btrfs with its raid5 and raid6
	// profiles. Without it, using them makes the kernel panic: the choice of their
	// algorithm, made at boot and by measurement, takes longer than the rest of the boot.
	RAID6 bool
	// Udev runs a udevd with the host's rules, as a real node does.
	Udev bool
	// Address connects the machine to the network that the calling program is in, see
	// EnterNetwork: a throwaway kernel has this address there. The command on the Host
	// backend is in that network as the caller is, and has no address of its own. The zero
	// value connects it to nothing.
	Address netip.Addr
	// PowerCut says that the caller means to call CutPower, which only UML can do.
	PowerCut bool
	// Backend is Auto when empty.
	Backend Backend
	// Timeout bounds the whole run, boot included; 0 means no limit.
	Timeout time.Duration
	// Stdout and Stderr receive the command's output while it runs; nil discards it.
	// They may be the same writer.
	Stdout, Stderr io.Writer
	// Log receives the machine's own messages, one a line: which backend and why, a
	// restart, what had to be taken down. Nil means os.Stderr.
	Log io.Writer
	// Console receives what the throwaway kernel prints; nil keeps it to itself. The last
	// lines are part of the error when the kernel dies, either way.
	Console io.Writer
}

// withDefaults returns a copy that is complete and absolute, or everything that is
// wrong with o at once.
func (o Options) withDefaults() (Options, error) {
	if o.Backend == "" {
		o.Backend = Auto
	}
	if o.MemoryMiB == 0 {
		o.MemoryMiB = defaultMemoryMiB
	}
	if o.Log == nil {
		o.Log = os.Stderr
	}
	o.Disks = slices.Clone(o.Disks)
	o.Shares = slices.Clone(o.Shares)
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return o, fmt.Errorf("working directory: %w", err)
	}
	o.Dir = dir
	return o, o.validate()
}

// validate also makes the host paths absolute.
func (o *Options) validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, &OptionError{Problem: fmt.Sprintf(format, args...)})
	}
	if len(o.Command) == 0 || o.Command[0] == "" {
		bad("no command given: name the program to run")
	}
	if !slices.Contains([]Backend{Auto, UML, Host}, o.Backend) {
		bad("backend %q is not known: use auto, uml or host", o.Backend)
	}
	if o.Backend == Host && o.PowerCut {
		bad("the host backend cannot cut the power: use uml")
	}
	if problem := addressProblem(o.Address); o.Address.IsValid() && problem != "" {
		bad("%s", problem)
	}
	if o.MemoryMiB < minMemoryMiB {
		bad("%d MiB of memory is too little to boot: give at least %d MiB", o.MemoryMiB, minMemoryMiB)
	}
	if o.Timeout < 0 {
		bad("time limit %v is negative: give a positive one, or 0 for none", o.Timeout)
	}
	if n := len(o.Disks); n > MaxDisks {
		bad("%d disks are too many: a machine has at most %d", n, MaxDisks)
	}
	for i := range o.Disks {
		if err := o.Disks[i].validate(); err != nil {
			bad("disk %d: %v", i+1, err)
		}
	}
	for i := range o.Shares {
		if err := o.Shares[i].validate(); err != nil {
			bad("share %d: %v", i+1, err)
		}
	}
	for _, kv := range o.Env {
		if name, _, ok := strings.Cut(kv, "="); !ok || name == "" || strings.ContainsRune(kv, 0) {
			bad("environment %q: use NAME=VALUE", kv)
		}
	}
	if o.Backend == Host && len(o.Modules) > 0 {
		bad("modules are not loaded into the host's own kernel: use uml, or load them before")
	}
	for _, arg := range o.Command {
		if strings.ContainsRune(arg, 0) {
			bad("argument %q has a zero byte, which no program can be given", arg)
		}
	}
	for _, name := range o.Modules {
		if !moduleName.MatchString(name) {
			bad("module %q: use a module's name as modprobe knows it, such as dm-dust", name)
		}
	}
	return errors.Join(errs...)
}

var moduleName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)

func (d *Disk) validate() error {
	if d.SizeBytes < 0 || d.SizeBytes%sectorBytes != 0 {
		return fmt.Errorf("size %d is not a positive multiple of %d bytes", d.SizeBytes, sectorBytes)
	}
	if d.File == "" {
		if d.SizeBytes == 0 {
			return errors.New("has no size: give one, such as 2G")
		}
		return nil
	}
	path, err := filepath.Abs(d.File)
	if err != nil {
		return err
	}
	d.File = path
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if d.SizeBytes == 0 {
			return fmt.Errorf("%s does not exist: give a size to make it", path)
		}
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	case info.Size() == 0 && d.SizeBytes == 0:
		return fmt.Errorf("%s is empty: give a size", path)
	case d.SizeBytes != 0 && info.Size() > d.SizeBytes:
		return fmt.Errorf("%s has %d bytes and is not cut to %d: give a size at least as large, or none",
			path, info.Size(), d.SizeBytes)
	}
	return nil
}

func (s *Share) validate() error {
	path, err := filepath.Abs(s.Host)
	if err != nil {
		return err
	}
	s.Host = path
	if info, err := os.Stat(path); err != nil {
		return err
	} else if !info.IsDir() {
		return fmt.Errorf("%s is not a folder", path)
	}
	if !filepath.IsAbs(s.Guest) || filepath.Clean(s.Guest) == "/" {
		return fmt.Errorf("the machine's folder %q must be absolute and not /", s.Guest)
	}
	s.Guest = filepath.Clean(s.Guest)
	return nil
}
