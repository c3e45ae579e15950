package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/csi-local/csi-local/pkg/capacity"
	"github.com/csi-local/csi-local/pkg/doctor"
	"github.com/csi-local/csi-local/pkg/inspect"
	"github.com/csi-local/csi-local/pkg/status"
)

// errCannotAsk: the API server does not answer, or not everything.
var errCannotAsk = errors.New("the cluster cannot be asked")

// viewOptions are the flags of the commands for people with a kubeconfig.
type viewOptions struct {
	command             string
	kubeconfig, context string
	output              string
	driverName          string
	maxRequests         int
	all                 bool
}

func (o *viewOptions) addFlags(fs *flag.FlagSet) {
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "file that says how to reach the API server; as kubectl finds it if empty")
	fs.StringVar(&o.context, "context", "", "the context in that file; its current one if empty")
	fs.StringVar(&o.output, "o", outputTable, "form of the output: table or json")
	fs.StringVar(&o.output, "output", outputTable, "the same as -o")
	fs.StringVar(&o.driverName, "driver-name", capacity.DefaultDriverName, "name of the CSI driver")
	fs.IntVar(&o.maxRequests, "max-requests", inspect.DefaultMaxRequests, "fail rather than send the API server more requests than this; 500 objects take one")
	fs.BoolVar(&o.all, "all", false, "table: write all rows and findings, however many are alike")
}

// parseViewFlags prints the flags to stdout when it is asked for help.
func parseViewFlags(command string, args []string, stdout io.Writer) (*viewOptions, error) {
	o := &viewOptions{command: command}
	fs := newFlagSet(command)
	o.addFlags(fs)
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		if _, err := fmt.Fprintf(stdout, "Flags of csi-local %s (one dash or two):\n\n", command); err != nil {
			return nil, err
		}
		fs.SetOutput(stdout)
		fs.PrintDefaults()
		return nil, flag.ErrHelp
	case err != nil:
		return nil, fmt.Errorf("%w: %w; csi-local %s -h lists the flags", errUsage, err, command)
	case fs.NArg() > 0:
		return nil, fmt.Errorf("%w: unexpected argument %q; all arguments of %s are flags", errUsage, fs.Arg(0), command)
	case o.output != outputTable && o.output != outputJSON:
		return nil, fmt.Errorf("%w: -o %s: must be table or json", errUsage, o.output)
	case o.maxRequests < 1:
		return nil, fmt.Errorf("%w: --max-requests %d: must be at least 1", errUsage, o.maxRequests)
	}
	if err := checkDriverName(o.driverName); err != nil {
		return nil, fmt.Errorf("%w: --driver-name: %w", errUsage, err)
	}
	return o, nil
}

// requestTimeout bounds each request. A page of 500 objects takes a moment.
const requestTimeout = 30 * time.Second

// restConfig is what kubectl would use.
func (o *viewOptions) restConfig() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.context}).ClientConfig()
	if err != nil {
		return nil, err
	}
	// One request at a time, so the API server sets the pace.
	config.UserAgent, config.QPS = "csi-local-"+o.command+"/"+versionString(), -1
	config.Timeout = requestTimeout
	return config, nil
}

// snapshot asks the cluster. Its errors match errCannotAsk.
func (o *viewOptions) snapshot(ctx context.Context) (*inspect.Snapshot, error) {
	config, err := o.restConfig()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCannotAsk, err)
	}
	client, err := inspect.NewClient(config)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCannotAsk, err)
	}
	s, err := inspect.Read(ctx, client, o.driverName, o.maxRequests)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCannotAsk, err)
	}
	return s, nil
}

// statusCommand is csi-local status.
func statusCommand(ctx context.Context, args []string, stdout io.Writer) error {
	o, err := parseViewFlags("status", args, stdout)
	if err != nil {
		return err
	}
	s, err := o.snapshot(ctx)
	if err != nil {
		return err
	}
	report := status.New(s, doctor.Examine(s))
	if o.output == outputJSON {
		return printJSON(stdout, report)
	}
	width, terminal := terminalWidth(stdout)
	return report.Write(stdout, status.Style{Width: width, Ink: ink(terminal), All: o.all})
}

func printJSON(w io.Writer, what any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false) // commands have quotes and ampersands
	return encoder.Encode(what)
}

// terminalWidth tells whether w is a terminal, and its number of columns.
func terminalWidth(w io.Writer) (columns int, terminal bool) {
	file, ok := w.(*os.File)
	if !ok {
		return 0, false
	}
	size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, false
	}
	return int(size.Col), true
}

// ink colours on terminals only, and not for people who want none (no-color.org).
func ink(terminal bool) doctor.Ink {
	return doctor.Ink(terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb")
}
