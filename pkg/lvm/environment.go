package lvm

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// environment is what an lvm process is started with.
type environment struct {
	lvmPath   string
	systemDir string // LVM_SYSTEM_DIR: where lvm.conf is
	outputDir string // where stray output goes
	udev      bool   // udevd takes part in making device nodes
}

// noiseBytes bounds how much of lvm's stray output is quoted in an error.
const noiseBytes = 2048

// prepare gives cmd its environment, its output file and the pipe for reports.
func (e environment) prepare(cmd *exec.Cmd, report, output *os.File) {
	cmd.Dir = "/"
	cmd.Env = []string{
		"PATH=" + searchPath,
		"LC_ALL=C", // messages in the words that classify.go knows
		"LVM_SYSTEM_DIR=" + e.systemDir,
		"LVM_REPORT_FD=3", // the first of ExtraFiles
		"LVM_SUPPRESS_FD_WARNINGS=1",
		// The shell reads its commands through readline and writes a history
		// after each: no key bindings of anybody, and the history goes nowhere.
		"HOME=/nonexistent", "INPUTRC=/dev/null", "TERM=dumb",
	}
	if !e.udev {
		cmd.Env = append(cmd.Env, "DM_DISABLE_UDEV=1")
	}
	cmd.Stdout, cmd.Stderr = output, output
	cmd.ExtraFiles = []*os.File{report}
	// A signal to our process group (Ctrl-C) is for us; we let lvm finish.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// searchPath finds lvm's own helpers, whatever PATH we were started with.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func (e environment) openOutput(name string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(e.outputDir, name), os.O_CREATE|os.O_RDWR|os.O_APPEND|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return f, nil
}

// strayOutput is the beginning of what lvm wrote outside of its reports.
func strayOutput(f *os.File) string {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, noiseBytes))
	if err != nil {
		return "" // only the words for an error are lost
	}
	return strings.Join(strings.Fields(string(text)), " ")
}

// quoted is stray output in a form to append to an error.
func quoted(noise string) string {
	if noise == "" {
		return ""
	}
	return "; lvm wrote: " + noise
}
