package driver_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/csi-local/csi-local/pkg/driver"
)

// kubelet speaks the protocol as kubelet's plugin manager does.
type kubelet struct {
	t    *testing.T
	path string
}

// dial waits for the socket and connects to it.
func (k *kubelet) dial() (registration.RegistrationClient, func()) {
	k.t.Helper()
	await(k.t, "the registration socket is there", func() bool { return exists(k.path) })
	conn, err := grpc.NewClient("unix://"+k.path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(k.t, err)
	return registration.NewRegistrationClient(conn), func() {
		if err := conn.Close(); err != nil {
			k.t.Error(err)
		}
	}
}

func (k *kubelet) notify(registered bool, text string) {
	k.t.Helper()
	client, closeConn := k.dial()
	defer closeConn()
	_, err := client.NotifyRegistrationStatus(k.t.Context(),
		&registration.RegistrationStatus{PluginRegistered: registered, Error: text})
	must(k.t, err)
}

func inode(t *testing.T, path string) os.FileInfo {
	t.Helper()
	info, err := os.Lstat(path)
	must(t, err)
	return info
}

func startRegistration(t *testing.T, look time.Duration) (k *kubelet, stop func() error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "reg")
	must(t, err)
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	r := driver.Registration{
		DriverName: "kubernetes.io.csi.local", RegistryDir: filepath.Join(dir, "plugins_registry"), Endpoint: "/var/lib/kubelet/plugins/x/csi.sock",
	}.WithWaits(time.Millisecond, look)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return &kubelet{t: t, path: r.SocketPath()}, func() error {
		cancel()
		return <-done
	}
}

func TestRegistration_TellsKubeletWhatItAsksFor(t *testing.T) {
	k, stop := startRegistration(t, time.Hour)
	client, closeConn := k.dial()
	defer closeConn()
	info, err := client.GetInfo(t.Context(), &registration.InfoRequest{})
	must(t, err)
	got := []string{info.GetType(), info.GetName(), info.GetEndpoint()}
	want := []string{"CSIPlugin", "kubernetes.io.csi.local", "/var/lib/kubelet/plugins/x/csi.sock"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"1.0.0"}, info.GetSupportedVersions()); diff != "" {
		t.Error(diff)
	}
	k.notify(true, "")
	must(t, stop())
	if exists(k.path) {
		t.Error("the socket is left after the stop: kubelet would ask a dead driver")
	}
}

func TestRegistration_RefusalLeadsToANewSocket(t *testing.T) {
	k, stop := startRegistration(t, time.Hour)
	for range 3 {
		await(t, "the socket is there", func() bool { return exists(k.path) })
		before := inode(t, k.path)
		k.notify(false, "CSINode: conflict")
		await(t, "there is another socket", func() bool {
			now, err := os.Lstat(k.path)
			return err == nil && (!os.SameFile(before, now) || now.ModTime() != before.ModTime())
		})
	}
	k.notify(true, "")
	must(t, stop())
}

func TestRegistration_LostSocketIsMadeAgain(t *testing.T) {
	k, stop := startRegistration(t, time.Millisecond)
	k.notify(true, "")
	must(t, os.Remove(k.path))
	k.notify(true, "") // waits for the new one
	must(t, stop())
	if exists(k.path) {
		t.Error("the socket is left after the stop")
	}
}

func TestRegistration_OverAStaleSocketOfACrashedProcess(t *testing.T) {
	k, stop := startRegistration(t, time.Hour)
	k.notify(true, "")
	must(t, stop(), os.WriteFile(k.path+".txt", nil, 0o600))
	// What is no socket is not replaced.
	must(t, os.Rename(k.path+".txt", k.path))
	r := driver.Registration{DriverName: "kubernetes.io.csi.local", RegistryDir: filepath.Dir(k.path), Endpoint: "/x"}
	if err := r.Run(t.Context()); err == nil {
		t.Error("a file that is no socket was replaced")
	}
}
