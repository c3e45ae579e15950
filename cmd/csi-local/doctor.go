package main

import (
	"context"
	"errors"
	"io"

	"github.com/csi-local/csi-local/pkg/doctor"
)

// errFindings: the cluster was asked, and something is wrong.
var errFindings = errors.New("csi-local doctor has findings")

// doctorCommand is csi-local doctor. It returns errFindings if there are any.
func doctorCommand(ctx context.Context, args []string, stdout io.Writer) error {
	o, err := parseViewFlags("doctor", args, stdout)
	if err != nil {
		return err
	}
	s, err := o.snapshot(ctx)
	if err != nil {
		return err
	}
	report := doctor.New(s)
	if o.output == outputJSON {
		err = printJSON(stdout, report)
	} else {
		_, terminal := terminalWidth(stdout)
		err = report.Write(stdout, ink(terminal), o.all)
	}
	if err == nil && !report.Healthy {
		err = errFindings
	}
	return err
}
