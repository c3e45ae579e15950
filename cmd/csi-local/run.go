package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
)

// version is set by the linker (-X main.version=...).
var version string

// Exit codes: exitUsage as the shell's own commands have it, and where a cluster could
// not be asked, so that it differs from a cluster with findings.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

const usage = `csi-local gives Kubernetes pods local disks from LVM pools.

Usage:
  csi-local node [flags]      serve the CSI calls of this node
  csi-local controller        look after lost nodes and claims that can never work, for the cluster
  csi-local orphans COMMAND   list, adopt or delete volumes of this node that have no PersistentVolume
  csi-local status            print what the pools of each node hold, and which claims wait
  csi-local doctor            print what is wrong in the cluster, and the commands that repair it
  csi-local version           print the version
  csi-local help              print this text

Each command lists its flags with -h, csi-local orphans -h its commands, too.
`

// errUsage: the command line is wrong.
var errUsage = errors.New("wrong command line")

// run is the whole program but for the process: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return exitCode(dispatch(ctx, args, stdout), "csi-local", stderr)
}

func dispatch(ctx context.Context, args []string, stdout io.Writer) error {
	command := ""
	if len(args) > 0 {
		command = args[0]
	}
	switch command {
	case "node":
		return nodeCommand(ctx, args[1:], stdout)
	case "controller":
		return controllerCommand(ctx, args[1:], stdout)
	case "orphans":
		return orphansCommand(ctx, args[1:], stdout)
	case "status":
		return statusCommand(ctx, args[1:], stdout)
	case "doctor":
		return doctorCommand(ctx, args[1:], stdout)
	case "version", "--version", "-version":
		_, err := fmt.Fprintln(stdout, versionString())
		return err
	case "help", "--help", "-help", "-h":
		_, err := io.WriteString(stdout, usage)
		return err
	case "":
		return fmt.Errorf("%w: no command given; the commands are node, controller, orphans, status, doctor, version, help", errUsage)
	default:
		return fmt.Errorf("%w: unknown command %q; the commands are node, controller, orphans, status, doctor, version, help", errUsage, command)
	}
}

// versionString prefers what the linker was told, then the module's version as
// go install records it, then the revision.
func versionString() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return "revision-" + setting.Value
		}
	}
	return "devel"
}
