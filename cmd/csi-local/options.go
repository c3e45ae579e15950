package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/driver"
)

// nodeOptions are the flags of csi-local node.
type nodeOptions struct {
	driverName         string
	nodeName           string
	endpoint           string
	poolsFile          string
	kubeletDir         string
	extraPaths         string
	register           bool
	metricsAddress     string
	maxVolumes         int64
	maxWipes           int
	lvmPath            string
	lvmRunDir          string
	lvmLockDir         string
	lvmRefreshInterval time.Duration
	lvmWaitForUdev     bool
	lvmPlainExec       bool
	metadataBackupDir  string
	publish            publishOptions
	orphans            orphanOptions
}

// maxVolumesLimit is what Kubernetes' count fields hold (int32).
const maxVolumesLimit = 1<<31 - 1

// addFlags declares the flags with their defaults.
func (o *nodeOptions) addFlags(fs *flag.FlagSet) {
	fs.StringVar(&o.driverName, "driver-name", capacity.DefaultDriverName,
		"name of the CSI driver: the provisioner of its StorageClasses and the owner of its volumes")
	fs.StringVar(&o.nodeName, "node-name", os.Getenv("NODE_NAME"),
		"name of the Kubernetes node; $NODE_NAME if not given")
	fs.StringVar(&o.endpoint, "endpoint", "",
		"socket to serve on, as unix:///absolute/path; unix://<kubelet-dir>/plugins/<driver-name>/csi.sock if not given")
	fs.StringVar(&o.poolsFile, "pools-file", "/etc/csi-local/pools.yaml",
		"YAML file with the pools; read again when it changes and on SIGHUP")
	fs.StringVar(&o.kubeletDir, "kubelet-dir", "/var/lib/kubelet",
		"kubelet's root folder; volumes are staged and published below its pods and plugins folders")
	fs.StringVar(&o.extraPaths, "extra-paths", "",
		"more folders, separated by commas, below which volumes may be staged and published; for tests and tools")
	fs.BoolVar(&o.register, "register", true,
		"register with kubelet by a socket in <kubelet-dir>/plugins_registry")
	fs.StringVar(&o.metricsAddress, "metrics-address", "",
		"host:port on which /metrics is served over HTTP; not served if empty")
	fs.Int64Var(&o.maxVolumes, "max-volumes", 256,
		"how many volumes of this driver the node can use in total, at least 1; fewer where LVM takes fewer")
	fs.IntVar(&o.maxWipes, "max-concurrent-wipes", 2,
		"how many deleted volumes of one volume group are wiped at once, at least 1; others wait for their turn")
	fs.StringVar(&o.lvmPath, "lvm-path", "lvm", "the lvm executable")
	fs.StringVar(&o.lvmRunDir, "lvm-run-dir", defaultLVMRunDir,
		"folder for the private LVM configuration; one for each csi-local process of a machine")
	fs.StringVar(&o.lvmLockDir, "lvm-lock-dir", "/run/lock/lvm",
		"LVM's lock folder, the same for all that run LVM on the machine")
	fs.DurationVar(&o.lvmRefreshInterval, "lvm-refresh-interval", time.Minute,
		"time between two readings of LVM's state when nothing happens")
	fs.BoolVar(&o.lvmWaitForUdev, "lvm-wait-for-udev", false,
		"leave device nodes to a running udevd and wait for it; usually LVM makes them itself, beside a running udevd too")
	fs.BoolVar(&o.lvmPlainExec, "lvm-plain-exec", false,
		"start a process for each LVM command instead of one lvm shell for all; slower")
	fs.StringVar(&o.metadataBackupDir, "metadata-backup-dir", "",
		"folder for copies of the volume groups' metadata, made after changes, for vgcfgrestore(8); none if empty")
	o.publish.addFlags(fs)
	o.orphans.addFlags(fs)
}

// validate reports everything that is wrong, at once.
func (o *nodeOptions) validate() error {
	var problems []error
	add := func(flag, format string, args ...any) {
		problems = append(problems, fmt.Errorf("--%s: "+format, append([]any{flag}, args...)...))
	}
	if err := checkDriverName(o.driverName); err != nil {
		add("driver-name", "%w", err)
	}
	if o.nodeName == "" || len(o.nodeName) > 253 {
		add("node-name", "%q is no node name; give the Node object's name, or set NODE_NAME", o.nodeName)
	}
	if _, err := driver.ParseEndpoint(o.socketEndpoint()); err != nil {
		add("endpoint", "%w", err)
	}
	for flag, path := range map[string]string{
		"kubelet-dir": o.kubeletDir, "pools-file": o.poolsFile, "lvm-run-dir": o.lvmRunDir, "lvm-lock-dir": o.lvmLockDir,
	} {
		if !filepath.IsAbs(path) {
			add(flag, "%q must be an absolute path", path)
		}
	}
	if o.metadataBackupDir != "" && !filepath.IsAbs(o.metadataBackupDir) {
		add("metadata-backup-dir", "%q must be an absolute path, or empty", o.metadataBackupDir)
	}
	for _, path := range o.extraPathList() {
		if !filepath.IsAbs(path) || filepath.Clean(path) == "/" {
			add("extra-paths", "%q must be an absolute path below the root folder", path)
		}
	}
	if _, _, err := net.SplitHostPort(o.metricsAddress); o.metricsAddress != "" && err != nil {
		add("metrics-address", "%q must be host:port or :port", o.metricsAddress)
	}
	if o.maxVolumes < 1 || o.maxVolumes > maxVolumesLimit {
		add("max-volumes", "%d must be from 1 to %d (0 would mean unlimited to Kubernetes)", o.maxVolumes, maxVolumesLimit)
	}
	if o.maxWipes < 1 {
		add("max-concurrent-wipes", "%d must be at least 1; to wipe nothing is a pool's policy, wipe: unsafe-none", o.maxWipes)
	}
	if o.lvmRefreshInterval < time.Second {
		add("lvm-refresh-interval", "%v must be at least 1s", o.lvmRefreshInterval)
	}
	if err := o.publish.validate(o.lvmRefreshInterval); err != nil {
		problems = append(problems, err)
	}
	if _, err := driver.ParseEndpoint("unix://" + o.adminSocketPath()); err != nil && filepath.IsAbs(o.lvmRunDir) {
		add("admin-socket", "%w", err)
	}
	if err := o.orphans.validate(); err != nil {
		problems = append(problems, err)
	}
	slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(problems...)
}

// checkDriverName holds the name to the CSI specification (GetPluginInfo) and
// to Kubernetes, which puts it before "/" in annotation and topology keys.
func checkDriverName(name string) error {
	if name == "" || len(name) > 63 {
		return fmt.Errorf("%q must have 1 to 63 bytes", name)
	}
	for _, label := range strings.Split(name, ".") {
		if label == "" || strings.HasPrefix(label, "-") || strings.HasSuffix(label, "-") ||
			strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return fmt.Errorf("%q must be a DNS name: lower-case letters, digits, '-' and '.'", name)
		}
	}
	return nil
}

func (o *nodeOptions) socketEndpoint() string {
	if o.endpoint != "" {
		return o.endpoint
	}
	return "unix://" + filepath.Join(o.kubeletDir, "plugins", o.driverName, "csi.sock")
}

func (o *nodeOptions) extraPathList() []string {
	if o.extraPaths == "" {
		return nil
	}
	return strings.Split(o.extraPaths, ",")
}
