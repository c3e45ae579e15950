// Command network is a program with a network of its own and a machine in it, which vm's
// own tests look at. On the machine it connects to the outside again and again.
//
//	network         cut the machine off, and mend it
//	network wait    wait to be killed
//	network host    take the host backend
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/csi-local/csi-local/test/vm"
)

func main() {
	mode := ""
	if len(os.Args) > 1 {
		mode = os.Args[1]
	}
	if err := run(context.Background(), mode); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, mode string) error {
	if vm.Inside() {
		return knock(ctx, mode)
	}
	if err := vm.EnterNetwork(); err != nil {
		return err
	}
	namespace, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(vm.HostAddress, "0"))
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	backend := vm.UML
	if mode == "host" {
		backend = vm.Host
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m, err := vm.Start(ctx, vm.Options{
		Command: []string{self, listener.Addr().String()}, Backend: backend, Address: netip.MustParseAddr("10.80.0.7"),
		Stdout: os.Stdout, Stderr: os.Stderr, Log: io.Discard, Timeout: 3 * time.Minute,
	})
	if err != nil {
		return err
	}
	knocks := make(chan string)
	go accept(listener, knocks)
	fmt.Println(namespace, <-knocks)
	switch mode {
	case "wait":
		_, err = m.Wait()
	case "host":
		fmt.Println("no cable", m.Disconnect() == vm.ErrNoCable)
		cancel()
		_, _ = m.Wait() // it was cancelled
	default:
		err = cutAndMend(m, knocks)
	}
	return err
}

// accept tells where each connection comes from.
func accept(listener net.Listener, knocks chan<- string) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() { // or one that was cut off would hold up the others
			_, _ = io.Copy(conn, conn)
			conn.Close()
			host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
			knocks <- host
		}()
	}
}

func cutAndMend(m *vm.Machine, knocks <-chan string) error {
	if err := m.Disconnect(); err != nil {
		return err
	}
	during := countFor(knocks, 3*time.Second)
	if err := m.Reconnect(); err != nil {
		return err
	}
	after := <-knocks
	// One may have been on its way when the cable was pulled.
	fmt.Println("cut off", during <= 1, "again", after)
	return m.CutPower()
}

func countFor(knocks <-chan string, d time.Duration) (count int) {
	for end := time.After(d); ; {
		select {
		case <-knocks:
			count++
		case <-end:
			return count
		}
	}
}

// knock connects for ever, sends much at once, and wants it back. One that is cut off
// ends with an error, and is no matter.
func knock(ctx context.Context, address string) error {
	text := make([]byte, 1<<20)
	for {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
		if err != nil {
			continue
		}
		go func() {
			_, _ = conn.Write(text)
			_ = conn.(*net.TCPConn).CloseWrite()
		}()
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		if n, err := io.Copy(io.Discard, conn); n != int64(len(text)) && err == nil {
			fmt.Println("only", n, "bytes came back")
		}
		conn.Close()
	}
}
