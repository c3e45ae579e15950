package driver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"k8s.io/klog/v2"

	"github.com/csi-local/csi-local/pkg/capacity"
)

// ParseEndpoint returns the path of a socket given as unix:///absolute/path or
// unix:/absolute/path; other forms are errors.
func ParseEndpoint(endpoint string) (string, error) {
	path, ok := strings.CutPrefix(endpoint, "unix:")
	path = strings.TrimPrefix(path, "//")
	switch {
	case !ok || !strings.HasPrefix(path, "/"):
		return "", fmt.Errorf("endpoint %q: must have the form unix:///absolute/path", endpoint)
	case len(path) > maxSocketPathBytes:
		return "", fmt.Errorf("endpoint %q: the path has %d bytes, the kernel takes at most %d (unix(7))", endpoint, len(path), maxSocketPathBytes)
	}
	return path, nil
}

// maxSocketPathBytes is what fits struct sockaddr_un with its final zero.
const maxSocketPathBytes = 107

// Listen makes the socket of an endpoint, with mode 0600: whoever can connect
// can delete volumes. A socket that nobody listens on any more is replaced; one
// that is in use, or anything else at that path, is an error.
func Listen(ctx context.Context, endpoint string) (net.Listener, error) {
	path, err := ParseEndpoint(endpoint)
	if err != nil {
		return nil, err
	}
	if err := removeStaleSocket(ctx, path); err != nil {
		return nil, err
	}
	// On Linux bind(2) gives the file the mode of the socket, so there is no
	// moment at which it is open to others.
	config := net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) error {
		var chmodErr error
		err := conn.Control(func(fd uintptr) { chmodErr = unix.Fchmod(int(fd), 0o600) })
		return errors.Join(err, chmodErr)
	}}
	return config.Listen(ctx, "unix", path)
}

func removeStaleSocket(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("endpoint %s: there is something that is no socket; remove it or choose another path", path)
	}
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err == nil {
		return errors.Join(fmt.Errorf("endpoint %s: another process is serving there; stop it first", path), conn.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("endpoint %s: %w", path, err)
	}
	return os.Remove(path)
}

// Serve answers CSI calls on the listener until ctx ends. Then it refuses new
// calls with Unavailable, waits until the running effects have ended, however
// long LVM takes, and returns. Wipes are broken off; the next start takes them
// up again. It also does what is left to do from before: see doChores
// and sweepInline.
func (d *Driver) Serve(ctx context.Context, listener net.Listener) error {
	logger := klog.FromContext(ctx)
	server := grpc.NewServer(grpc.UnaryInterceptor(d.interceptor(logger)))
	csi.RegisterIdentityServer(server, &identityServer{Driver: d})
	csi.RegisterControllerServer(server, &controllerServer{Driver: d})
	csi.RegisterNodeServer(server, newNodeServer(d))

	d.reportMissingTools(logger)
	background, cancel := context.WithCancel(ctx)
	defer cancel()
	var chores sync.WaitGroup
	chores.Go(func() { d.doChores(background) })
	chores.Go(func() { d.sweepInline(background) })
	served := make(chan error, 1)
	go func() {
		defer close(served)
		served <- server.Serve(listener)
	}()
	logger.Info("Serving CSI", "endpoint", listener.Addr().String(), "driver", d.driverName, "version", d.version, "node", d.nodeName)

	var err error
	select {
	case err = <-served:
		cancel()
	case <-ctx.Done():
		logger.Info("Stopping: waiting for running operations")
	}
	err = errors.Join(err, d.Stop(context.WithoutCancel(ctx)))
	chores.Wait()
	server.GracefulStop()
	// If all this came before server.Serve had begun, it is what closes the listener, and the
	// next process would find somebody serving there.
	<-served
	return err
}

// reportMissingTools says at the start, and not only to the first pod, which file
// systems cannot be used here.
func (d *Driver) reportMissingTools(logger klog.Logger) {
	for _, fs := range capacity.Filesystems() {
		if err := d.checkTools(fs); err != nil {
			logger.Error(err, "Volumes with this file system are refused", "fsType", fs)
		}
	}
}
