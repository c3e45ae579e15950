package driver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"k8s.io/klog/v2"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// csiVersion is what kubelet asks for: the generation of the CSI protocol, not
// the version of the specification.
const csiVersion = "1.0.0"

// Waits of a [Registration] that did not succeed, and between two looks whether
// its socket is still there.
const (
	registrationRetryMin = time.Second
	registrationRetryMax = time.Minute
	registrationLook     = 10 * time.Second
)

// Registration makes the driver known to kubelet: kubelet finds a socket in its
// plugin registry, asks on it for the driver's name and endpoint, and says how
// it went (k8s.io/kubelet/pkg/apis/pluginregistration/v1).
type Registration struct {
	// DriverName is the CSI driver's name.
	DriverName string
	// RegistryDir is <kubelet dir>/plugins_registry; made if missing.
	RegistryDir string
	// Endpoint is the path of the CSI socket, as kubelet sees it.
	Endpoint string

	// retryMin, retryMax and look replace the waits in tests, if not 0.
	retryMin, retryMax, look time.Duration
}

// SocketPath is the socket that kubelet finds.
func (r Registration) SocketPath() string {
	return filepath.Join(r.RegistryDir, r.DriverName+"-reg.sock")
}

// Run serves until ctx ends, and removes the socket then. When kubelet says
// that registration failed, or the socket is gone, it makes the socket anew,
// which kubelet takes as a new plugin. An error means that the socket could not
// be made at all.
func (r Registration) Run(ctx context.Context) error {
	r.retryMin = orDefault(r.retryMin, registrationRetryMin)
	r.retryMax = orDefault(r.retryMax, registrationRetryMax)
	r.look = orDefault(r.look, registrationLook)
	if err := os.MkdirAll(r.RegistryDir, 0o750); err != nil {
		return fmt.Errorf("registration with kubelet: %w", err)
	}
	wait := r.retryMin
	for {
		registered, err := r.serveOnce(ctx)
		if err != nil {
			return fmt.Errorf("registration with kubelet: %w", err)
		}
		if ctx.Err() != nil {
			return nil
		}
		if registered {
			wait = r.retryMin
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		wait = min(2*wait, r.retryMax)
	}
}

// serveOnce serves on one socket until ctx ends, registration fails, or the
// socket is gone. registered tells whether kubelet had accepted the driver.
func (r Registration) serveOnce(ctx context.Context) (registered bool, err error) {
	listener, err := Listen(ctx, "unix://"+r.SocketPath())
	if err != nil {
		return false, err
	}
	mine, err := os.Lstat(r.SocketPath())
	if err != nil {
		return false, errors.Join(err, listener.Close())
	}
	answers := make(chan error, 1)
	server := grpc.NewServer()
	registration.RegisterRegistrationServer(server, &registrationServer{Registration: r, answers: answers})
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	registered, err = r.await(ctx, mine, answers, served)
	if !r.isMine(mine) {
		keepFile(listener)
	}
	// kubelet's last call shall get its answer, but not hold anybody up.
	hurry := time.AfterFunc(time.Second, server.Stop)
	defer hurry.Stop()
	server.GracefulStop()
	return registered, err
}

// await returns when there is a reason to end serving.
func (r Registration) await(ctx context.Context, mine os.FileInfo, answers, served <-chan error) (registered bool, err error) {
	logger := klog.FromContext(ctx)
	look := time.NewTicker(r.look)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return registered, nil
		case err := <-served:
			return registered, err
		case failure := <-answers:
			if failure != nil {
				logger.Error(failure, "kubelet refused to register the driver; it is asked again", "socket", r.SocketPath())
				return false, nil
			}
			logger.Info("Registered with kubelet", "driver", r.DriverName, "endpoint", r.Endpoint)
			registered = true
		case <-look.C:
			if !r.isMine(mine) {
				logger.Info("The registration socket is gone; it is made again", "socket", r.SocketPath())
				return registered, nil
			}
		}
	}
}

func (r Registration) isMine(mine os.FileInfo) bool {
	now, err := os.Lstat(r.SocketPath())
	return err == nil && os.SameFile(mine, now)
}

// keepFile keeps a listener from removing, when it closes, a file that somebody
// else has put in the place of its own.
func keepFile(listener net.Listener) {
	if l, ok := listener.(*net.UnixListener); ok {
		l.SetUnlinkOnClose(false)
	}
}

func orDefault(d, fallback time.Duration) time.Duration {
	if d == 0 {
		return fallback
	}
	return d
}

// registrationServer is the service that kubelet calls.
type registrationServer struct {
	registration.UnimplementedRegistrationServer
	Registration
	// answers gets kubelet's verdicts: nil, or why it refused.
	answers chan<- error
}

// GetInfo names the driver and its socket.
func (s *registrationServer) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type:              registration.CSIPlugin,
		Name:              s.DriverName,
		Endpoint:          s.Endpoint,
		SupportedVersions: []string{csiVersion},
	}, nil
}

// NotifyRegistrationStatus is kubelet's verdict.
func (s *registrationServer) NotifyRegistrationStatus(ctx context.Context, status *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	var verdict error
	if !status.GetPluginRegistered() {
		verdict = fmt.Errorf("kubelet: %s", status.GetError())
	}
	select {
	case s.answers <- verdict:
		return &registration.RegistrationStatusResponse{}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
