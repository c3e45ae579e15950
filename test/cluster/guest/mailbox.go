package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A command is a set of files in the shared folder, named after one random word:
//
//	WORD.ask     what to run, as JSON; made by the host
//	WORD.out     what it printed on stdout
//	WORD.err     what it printed on stderr
//	WORD.done    the exit status; made when all else is there
//	WORD.cancel  made by the host when nobody waits any more
const (
	askSuffix    = ".ask"
	outSuffix    = ".out"
	errSuffix    = ".err"
	doneSuffix   = ".done"
	cancelSuffix = ".cancel"
)

// lookEvery is the time between two looks into the folder, on both sides.
const lookEvery = 30 * time.Millisecond

// ask is a command to run.
type ask struct {
	Args []string
	// Input is its standard input.
	Input []byte
}

// Result is what a command left.
type Result struct {
	// Status is the exit status; 128 and the signal's number if one killed it.
	Status         int
	Stdout, Stderr []byte
}

// Call runs a command on the node that shares the folder, and returns when it has ended.
// When ctx ends before, it is killed. word names the files, and must be another each time.
func Call(ctx context.Context, folder, word string, input []byte, args ...string) (Result, error) {
	content, err := json.Marshal(ask{Args: args, Input: input})
	if err != nil {
		return Result{}, err
	}
	file := func(suffix string) string { return filepath.Join(folder, word+suffix) }
	if err := writeWhole(file(askSuffix), content); err != nil {
		return Result{}, err
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		status, err := os.ReadFile(file(doneSuffix))
		if err == nil {
			r := Result{}
			_, err = fmt.Sscan(string(status), &r.Status)
			stdout, outErr := os.ReadFile(file(outSuffix))
			stderr, errErr := os.ReadFile(file(errSuffix))
			r.Stdout, r.Stderr = stdout, stderr
			for _, suffix := range []string{askSuffix, outSuffix, errSuffix, doneSuffix} {
				_ = os.Remove(file(suffix)) // the folder goes away in the end
			}
			return r, errors.Join(err, outErr, errErr)
		}
		select {
		case <-ctx.Done():
			return Result{}, errors.Join(context.Cause(ctx), writeWhole(file(cancelSuffix), nil))
		case <-tick.C:
		}
	}
}

// writeWhole makes a file that nobody sees half written.
func writeWhole(path string, content []byte) error {
	partial := path + ".partial"
	if err := os.WriteFile(partial, content, 0o600); err != nil {
		return err
	}
	return os.Rename(partial, path)
}

// serve runs what is asked for in the folder, each at once.
func serve(ctx context.Context, folder string) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	running := map[string]context.CancelFunc{}
	for {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			if word, ok := strings.CutSuffix(entry.Name(), askSuffix); ok && running[word] == nil {
				one, cancel := context.WithCancel(ctx)
				running[word] = cancel
				go answer(one, filepath.Join(folder, word))
			}
			if word, ok := strings.CutSuffix(entry.Name(), cancelSuffix); ok && running[word] != nil {
				running[word]()
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// answer runs one command. path is that of its files, without their suffixes.
func answer(ctx context.Context, path string) {
	status, err := runAsked(ctx, path)
	if err != nil {
		status = 127
		_ = os.WriteFile(path+errSuffix, []byte(err.Error()+"\n"), 0o600)
	}
	for _, suffix := range []string{outSuffix, errSuffix} { // Call wants both
		if file, err := os.OpenFile(path+suffix, os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			_ = file.Close()
		}
	}
	_ = writeWhole(path+doneSuffix, fmt.Append(nil, status)) // if it fails, the host waits until it gives up
}

func runAsked(ctx context.Context, path string) (status int, err error) {
	content, err := os.ReadFile(path + askSuffix)
	if err != nil {
		return 0, err
	}
	var a ask
	if err := json.Unmarshal(content, &a); err != nil {
		return 0, err
	}
	stdout, err := os.Create(path + outSuffix)
	if err != nil {
		return 0, err
	}
	// hostfs hands a file over to the host when it is closed.
	defer func() { err = errors.Join(err, stdout.Close()) }()
	stderr, err := os.Create(path + errSuffix)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, stderr.Close()) }()
	cmd := exec.CommandContext(ctx, a.Args[0], a.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(a.Input), stdout, stderr
	// With all that it has started.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	_ = cmd.Wait() // the state tells
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return cmd.ProcessState.ExitCode(), nil
}
