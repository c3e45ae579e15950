package driver

import (
	"context"
	"path"
	"time"

	"github.com/kubernetes-csi/csi-lib-utils/protosanitizer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/klog/v2"
)

// interceptor surrounds every call: it counts and logs it once, makes a status
// of its error, turns panics into Internal, refuses calls while stopping and
// requests beyond the specification's limits. Handlers do none of that.
func (d *Driver) interceptor(base klog.Logger) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		method := path.Base(info.FullMethod)
		logger := base.WithValues("rpc", method)
		if id := requestVolumeID(req); id != "" {
			logger = logger.WithValues("volumeID", id)
		}
		ctx = klog.NewContext(ctx, logger)
		done := d.metrics.beginCall(method)
		start := time.Now()
		resp, failure := d.handle(ctx, req, handler)
		err := toStatus(method, failure)
		done(status.Code(err))
		if err != nil {
			d.noteFailure(method, failure, status.Code(err))
		}
		logCall(logger, method, req, err, time.Since(start))
		return resp, err
	}
}

func (d *Driver) handle(ctx context.Context, req any, handler grpc.UnaryHandler) (resp any, err error) {
	if d.operations.isStopping() {
		return nil, errStopping
	}
	if err := validateSizes(req); err != nil {
		return nil, err
	}
	err = guard(ctx, func() error {
		resp, err = handler(ctx, req)
		return err
	})
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// requestVolumeID names what the call is about: a volume's ID, or its name while it has none.
func requestVolumeID(req any) string {
	switch r := req.(type) {
	case interface{ GetVolumeId() string }:
		return r.GetVolumeId()
	case interface{ GetName() string }:
		return r.GetName()
	default:
		return ""
	}
}

// isQuiet tells the methods that are called every few seconds and say nothing new.
func isQuiet(method string) bool {
	switch method {
	case "Probe", "GetPluginInfo", "GetPluginCapabilities", "NodeGetCapabilities", "ControllerGetCapabilities",
		"NodeGetVolumeStats", "NodeGetVolumeHealth", "NodeGetStorageHealth", "GetCapacity":
		return true
	default:
		return false
	}
}

// logCall writes the one line of a call. Failures that need a person are
// errors; those that the caller is told to repeat are not.
func logCall(logger klog.Logger, method string, req any, err error, took time.Duration) {
	values := []any{"duration", took, "code", status.Code(err).String()}
	if logger.V(5).Enabled() { //nolint:logcheck // one of the values of the line below, whatever its level
		values = append(values, "request", protosanitizer.StripSecrets(req).String())
	}
	switch {
	case err == nil && isQuiet(method):
		logger.V(5).Info("Call ended", values...)
	case err == nil:
		logger.V(2).Info("Call ended", values...)
	case isPassing(status.Code(err)):
		logger.V(2).Info("Call did not succeed yet", append(values, "reason", status.Convert(err).Message())...)
	default:
		logger.Error(err, "Call failed", values...)
	}
}

// isPassing tells codes that tell the caller to try again as it is.
func isPassing(code codes.Code) bool {
	switch code {
	case codes.Aborted, codes.Canceled, codes.DeadlineExceeded, codes.Unavailable:
		return true
	default:
		return false
	}
}
