// Command stock runs the stock csi-sanity program against a running `csi-local node` on
// real LVM, for a thick and a thin pool, as file systems and as raw block volumes. It
// wants root, device mapper and two disks ($VM_DISKS), whose content it destroys: make
// sanity runs it in a throwaway kernel.
//
// It fails if csi-sanity fails, and also if csi-sanity left out anything that the driver
// advertises or should advertise.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"

	suite "github.com/csi-local/csi-local/sanity"
	bed "github.com/csi-local/csi-local/test/sanity"
)

type options struct {
	driver, csiSanity string
	all               bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "stock-sanity:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	var o options
	flags := flag.NewFlagSet("stock-sanity", flag.ContinueOnError)
	flags.StringVar(&o.driver, "driver", "bin/csi-local", "the csi-local executable")
	flags.StringVar(&o.csiSanity, "csi-sanity", "bin/csi-sanity", "the stock csi-sanity executable")
	flags.BoolVar(&o.all, "all", false, "every layout, not only linear and thin")
	if err := flags.Parse(args); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "stock-sanity-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	b, err := bed.SetUp(ctx, o.driver, folder, strings.Fields(os.Getenv("VM_DISKS")))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.TearDown(context.WithoutCancel(ctx))) }()
	advertised, err := suite.Advertised(ctx, b.Endpoint())
	if err != nil {
		return err
	}
	var problems []error
	for _, v := range b.Variants() {
		if !o.all && (strings.Contains(v.Name, "striped") || strings.Contains(v.Name, "raid1")) {
			continue
		}
		if err := runVariant(ctx, o.csiSanity, folder, v, advertised, out); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", v.Name, err))
		}
	}
	if len(problems) > 0 {
		log, err := os.ReadFile(b.LogFile())
		fmt.Fprintf(out, "the driver's log:\n%s\n", log)
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// runVariant runs csi-sanity once and judges its report. csi-sanity's own output is
// shown only if something was wrong.
func runVariant(ctx context.Context, program, folder string, v suite.Variant, advertised suite.Capabilities, out io.Writer) error {
	report := filepath.Join(folder, "report.json")
	parameters := filepath.Join(folder, "parameters.yaml")
	text, err := yaml.Marshal(v.Parameters)
	if err != nil {
		return err
	}
	if err := os.WriteFile(parameters, text, 0o600); err != nil {
		return err
	}
	access := "mount"
	if v.Block {
		access = "block"
	}
	cmd := exec.CommandContext(ctx, program,
		"--csi.endpoint="+v.Endpoint,
		"--csi.mountdir="+v.TargetPath(),
		"--csi.stagingdir="+v.StagingPath(),
		"--csi.testvolumeparameters="+parameters,
		"--csi.testvolumeaccesstype="+access,
		"--csi.testvolumesize="+strconv.FormatInt(v.VolumeBytes, 10),
		"--csi.testvolumeexpandsize="+strconv.FormatInt(v.ExpandedBytes, 10),
		"--ginkgo.json-report="+report, "--ginkgo.no-color", "--ginkgo.seed=1")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	started := time.Now()
	runErr := cmd.Run()

	specs, err := suite.ReadReport(report)
	if err != nil {
		return errors.Join(runErr, err, fmt.Errorf("csi-sanity printed:\n%s", &output))
	}
	count := suite.Count(specs)
	unjustified := suite.Unjustified(specs, suite.Unadvertised(), advertised)
	fmt.Fprintf(out, "csi-sanity, %-24s %d passed, %d failed, %d skipped; not asked, because not advertised: %d; in %s\n",
		v.Name+":", count[suite.Passed], count[suite.Failed], len(unjustified),
		count[suite.Skipped]+count[suite.Pending]-len(unjustified), time.Since(started).Round(time.Second))
	problems := []error{runErr}
	for _, line := range unjustified {
		problems = append(problems, errors.New(line))
	}
	if count[suite.Passed] == 0 {
		problems = append(problems, errors.New("no spec passed: csi-sanity asked nothing"))
	}
	if err := errors.Join(problems...); err != nil {
		fmt.Fprintf(out, "%s\n", &output)
		return err
	}
	return nil
}
