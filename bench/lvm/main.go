// Command lvm measures csi-local against plain LVM, side by side in one run on
// the same disks: what a call over gRPC costs, as a ratio to the LVM command
// that an administrator would type.
//
// It wants root, device mapper and two disks ($VM_DISKS), whose content it
// destroys; make bench-lvm runs it in the throwaway kernel. Every ratio is of
// medians of alternating runs, so that what slows the machine slows both.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/csi-local/csi-local/bench/result"
)

type options struct {
	binary    string
	rounds    int
	volumes   int
	resultDir string
	disks     []string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench-lvm:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	opts := options{disks: strings.Fields(os.Getenv("VM_DISKS"))}
	flags := flag.NewFlagSet("bench-lvm", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&opts.binary, "binary", "bin/csi-local", "the csi-local executable")
	flags.IntVar(&opts.rounds, "rounds", 20, "runs of each operation; ratios are of medians")
	flags.IntVar(&opts.volumes, "volumes", 1000, "volumes for lists and peak memory")
	flags.StringVar(&opts.resultDir, "results", "bench/results", "folder for lvm.json")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if len(opts.disks) < 2 {
		return errors.New("two disks are needed in $VM_DISKS, found " + fmt.Sprint(len(opts.disks)) + "; run it by make bench-lvm")
	}

	bed, err := setUp(ctx, opts, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bed.tearDown(ctx)) }()

	var results result.Set
	for _, part := range []struct {
		name    string
		measure func(context.Context, *testbed, *result.Set) error
	}{
		{"create and delete, thick", measureThick},
		{"create and delete, thin", measureThin},
		{"100 creates at once", measureConcurrent},
		{"processes and memory with many volumes", measureMany},
	} {
		fmt.Fprintf(stderr, "bench-lvm: %s\n", part.name)
		if err := part.measure(ctx, bed, &results); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	if err := results.Print(stdout); err != nil {
		return err
	}
	if err := results.Write(opts.resultDir, "lvm"); err != nil {
		return err
	}
	return results.Err()
}
