package vm

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

var udevPaths = []string{"/lib/systemd/systemd-udevd", "/usr/lib/systemd/systemd-udevd", "/sbin/udevd"}

// findUdev returns the path of the udevd program.
func findUdev() (string, error) {
	for _, path := range udevPaths {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", &MissingError{Backend: UML, Problem: "udevd is not in " + strings.Join(udevPaths, ", "),
		Remedy: "on Debian or Ubuntu: apt-get install udev"}
}

// startUdev returns when udevd has seen every block device that is there already.
func startUdev() error {
	udevd, err := findUdev()
	if err != nil {
		return err
	}
	udevadm, err := lookPath("udevadm")
	if err != nil {
		return errors.New("udevadm is not installed, but udevd is")
	}
	// Only what LVM can meet: the hundreds of terminals would take many seconds.
	for _, argv := range [][]string{
		{udevd, "--daemon"},
		{udevadm, "trigger", "--action=add", "--subsystem-match=block", "--subsystem-match=misc"},
		{udevadm, "settle", "--timeout=60"},
	} {
		if err := runTool(argv); err != nil {
			return err
		}
	}
	return nil
}

// runTool runs a program during set-up; what it prints goes to the kernel's console.
func runTool(argv []string) error {
	pid, err := startProcess(argv[0], argv, []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, os.Stderr, os.Stderr)
	if err != nil {
		return err
	}
	if status := reapUntil(pid); status != 0 {
		return fmt.Errorf("%s ended with status %d", strings.Join(argv, " "), status)
	}
	return nil
}
