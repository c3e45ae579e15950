package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
)

// pluginName is the program's file when it is a plugin of kubectl, which finds it in
// PATH: kubectl csi-local and kubectl csi_local are the same to it.
const pluginName = "kubectl-csi_local"

const pluginUsage = `Looks after local volumes of csi-local.

Usage:
  kubectl csi-local status    what the pools of each node hold, and which claims wait
  kubectl csi-local doctor    what is wrong, and the command that repairs it
  kubectl csi-local version   print the version

Each command lists its flags with -h.
`

// program is what the file of that name does.
func program(name string) func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if filepath.Base(name) == pluginName {
		return runPlugin
	}
	return run
}

// runPlugin is the whole program as a plugin of kubectl: the commands for people with
// a kubeconfig.
func runPlugin(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return exitCode(dispatchPlugin(ctx, args, stdout), "kubectl csi-local", stderr)
}

func dispatchPlugin(ctx context.Context, args []string, stdout io.Writer) error {
	command := "help"
	if len(args) > 0 {
		command = args[0]
	}
	switch command {
	case "status", "doctor", "version":
		return dispatch(ctx, args, stdout)
	case "help", "--help", "-help", "-h":
		_, err := io.WriteString(stdout, pluginUsage)
		return err
	default:
		return fmt.Errorf("%w: unknown command %q; the commands are status, doctor, version, help", errUsage, command)
	}
}

// exitCode prints the error, if it has not been said yet, and returns the process's
// exit code.
func exitCode(err error, name string, stderr io.Writer) int {
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.Is(err, errFindings):
		return exitFailed // they are printed
	}
	_, _ = fmt.Fprintf(stderr, "%s: %v\n", name, err) // nowhere left to say that stderr is closed
	if errors.Is(err, errUsage) || errors.Is(err, errCannotAsk) {
		return exitUsage
	}
	return exitFailed
}
