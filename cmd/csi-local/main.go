// Command csi-local gives Kubernetes pods local disks from LVM pools.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal ends the process at once
	os.Exit(program(os.Args[0])(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
