package vm

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Packages returns the Debian and Ubuntu packages that the throwaway kernel and the
// tools usually run in it need.
func Packages() []string {
	return []string{
		"user-mode-linux", "kmod", "udev",
		"lvm2", "dmsetup", "thin-provisioning-tools", "cryptsetup-bin",
		"e2fsprogs", "xfsprogs", "btrfs-progs", "util-linux",
	}
}

const (
	kernelName    = "linux.uml"
	kernelModules = "/usr/lib/uml/modules"
)

// findKernel returns the path of the user-mode Linux kernel, or what has to be
// installed.
func findKernel() (string, error) {
	if raceEnabled {
		return "", &MissingError{Backend: UML,
			Problem: "this program is built with the race detector, which needs more address space than user-mode Linux has",
			Remedy:  "build it, or run the tests, without -race; or run as root on a host with device mapper"}
	}
	kernel, err := lookPath(kernelName)
	if err != nil {
		return "", missingPackage("linux.uml is not installed")
	}
	if entries, err := os.ReadDir(kernelModules); err != nil || len(entries) == 0 {
		return "", missingPackage("its modules are not in " + kernelModules)
	}
	if _, err := lookPath("modprobe"); err != nil {
		return "", missingPackage("modprobe is not installed")
	}
	return kernel, nil
}

func missingPackage(problem string) error {
	return &MissingError{Backend: UML, Problem: problem,
		Remedy: "on Debian or Ubuntu: apt-get install " + strings.Join(Packages(), " ")}
}

// lookPath also looks where administration tools are, which are not on every user's PATH.
func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return filepath.Abs(path)
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/bin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", err
}
