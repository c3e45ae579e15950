package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// progressInterval is how often a package that still runs is mentioned.
const progressInterval = 20 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "testsummary:", err)
		stop()
		os.Exit(1)
	}
}

// options are the flags shared by the three subcommands.
type options struct {
	resultsDir string
	label      string
	command    []string
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("say run, step or total")
	}
	opts, err := parseOptions(args[0], args[1:])
	if err != nil {
		return err
	}
	if err := os.MkdirAll(opts.resultsDir, 0o755); err != nil {
		return err
	}
	switch args[0] {
	case "run":
		return runTests(ctx, opts, out)
	case "step":
		return runStep(ctx, opts, out)
	case "total":
		return printTotal(opts.resultsDir, out)
	default:
		return fmt.Errorf("unknown subcommand %q: say run, step or total", args[0])
	}
}

func parseOptions(subcommand string, args []string) (options, error) {
	var opts options
	flags := flag.NewFlagSet(subcommand, flag.ContinueOnError)
	flags.StringVar(&opts.resultsDir, "results", "", "folder that keeps the counts of a run")
	flags.StringVar(&opts.label, "label", "", "name of this part of the run")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	opts.command = flags.Args()
	if opts.resultsDir == "" {
		return options{}, errors.New("-results is missing")
	}
	if subcommand != "total" && (opts.label == "" || len(opts.command) == 0) {
		return options{}, fmt.Errorf("%s needs -label and a command after --", subcommand)
	}
	return opts, nil
}

// runTests runs a "go test -json" command and follows its events.
func runTests(ctx context.Context, opts options, out io.Writer) error {
	fmt.Fprintf(out, "== %s\n", opts.label)
	raw, err := os.Create(filepath.Join(opts.resultsDir, opts.label+".log"))
	if err != nil {
		return err
	}
	defer raw.Close()

	cmd := command(ctx, opts.command)
	cmd.Stderr = out
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	started := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	follow := newFollower(out, raw.Name())
	follow.read(io.TeeReader(pipe, raw), progressInterval)
	runErr := cmd.Wait()

	part := follow.result(opts.label)
	part.Seconds = time.Since(started).Seconds()
	if runErr != nil && part.Failed == 0 {
		// The command broke before or beside its tests: a package that does not
		// build, a kernel that did not boot.
		part.Failed++
	}
	if err := part.save(opts.resultsDir); err != nil {
		return err
	}
	fmt.Fprintf(out, "   %s: %s in %s\n", opts.label, part.words(), seconds(part.Seconds))
	if runErr != nil {
		return fmt.Errorf("%s: %w (everything it printed: %s)", opts.label, runErr, raw.Name())
	}
	return part.verdict()
}

// runStep runs a command whose output speaks for itself and counts it as one.
func runStep(ctx context.Context, opts options, out io.Writer) error {
	fmt.Fprintf(out, "== %s\n", opts.label)
	cmd := command(ctx, opts.command)
	cmd.Stdout, cmd.Stderr = out, out
	started := time.Now()
	runErr := cmd.Run()
	part := result{Label: opts.label, Seconds: time.Since(started).Seconds()}
	if runErr != nil {
		part.Failed = 1
	} else {
		part.Passed = 1
	}
	if err := part.save(opts.resultsDir); err != nil {
		return err
	}
	fmt.Fprintf(out, "   %s: %s in %s\n", opts.label, part.words(), seconds(part.Seconds))
	if runErr != nil {
		return fmt.Errorf("%s: %w", opts.label, runErr)
	}
	return nil
}

// command asks the child to end rather than killing it, so that it can take down
// what it started (a throwaway kernel, mounts).
func command(ctx context.Context, argv []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	return cmd
}
