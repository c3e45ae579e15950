package vm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// HostAddress is the address of the program that called [EnterNetwork], and of
// everything it starts outside of its machines.
const HostAddress = "10.80.0.1"

// subnetBits is the length of the prefix that HostAddress and the machines share.
const subnetBits = 24

// envNetwork tells a program that it is in a network of its own already.
const envNetwork = "VM_NETWORK"

// EnterNetwork gives the calling program a network of its own, in which its machines have
// addresses (Options.Address) and nothing else is: no other interface, and no way out.
// The network is a namespace without a name, so that it vanishes with the last process in
// it, however that one ends.
//
// To get there the program is started again, with the same arguments, input and output,
// and this one only waits and exits with its status. So everything that needs the world
// outside, such as building a program, is done before the call; and done a second time,
// because the call returns in the second process only, with HostAddress and loopback up.
// Called there again it does nothing. Without root, the second process is root in a user
// namespace. The process may have no other reason to be started twice: it should be called
// early in main or TestMain.
//
// The error is a *MissingError where there can be no such network.
func EnterNetwork() error {
	if os.Getenv(envNetwork) != "" {
		return networkUp()
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(),
		os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer stop()
	cmd := exec.CommandContext(ctx, self, os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), envNetwork+"=1")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.SysProcAttr = networkAttributes()
	// The signal at the parent's death comes when the starting thread ends.
	runtime.LockOSThread()
	if err := cmd.Start(); err != nil {
		return noNetwork("a network namespace cannot be made", err)
	}
	_ = cmd.Wait() // the state tells how it has ended
	status, err := hostStatus(context.Background(), cmd.ProcessState, nil)
	os.Exit(ExitStatus(status, err))
	return nil
}

func networkAttributes() *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if uid := os.Geteuid(); uid != 0 {
		attributes.Cloneflags |= syscall.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	return attributes
}

func noNetwork(problem string, cause error) error {
	return errors.Join(&MissingError{Backend: UML, Problem: problem,
		Remedy: "run as root where " + tunDevice + " and network namespaces exist, or where users may make namespaces"}, cause)
}

// networkUp is what the second process does with its empty network.
func networkUp() error {
	return configure(func(c interfaces) error {
		if err := c.setFlags("lo", unix.IFF_UP); err != nil {
			return err
		}
		// A second address, by the old means that need no other program.
		return c.setAddresses("lo:vm", map[uint]netip.Addr{
			unix.SIOCSIFADDR: netip.MustParseAddr(HostAddress), unix.SIOCSIFNETMASK: mask(32),
		})
	})
}

// addressProblem says why a machine cannot have the address; empty when it can.
func addressProblem(a netip.Addr) string {
	host := netip.MustParseAddr(HostAddress)
	subnet := netip.PrefixFrom(host, subnetBits).Masked()
	last := a.As16()[15]
	if !a.Is4() || !subnet.Contains(a) || a == host || last == 0 || last == 255 {
		return fmt.Sprintf("address %v is not one of %v: use one that is neither the first, the last nor %s", a, subnet, HostAddress)
	}
	if os.Getenv(envNetwork) == "" {
		return "an address needs a network: call EnterNetwork before"
	}
	return ""
}

// interfaces configures network interfaces of the calling process's namespace.
type interfaces struct{ fd int }

func configure(do func(interfaces) error) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("network: %w", err)
	}
	defer unix.Close(fd)
	return do(interfaces{fd})
}

func (c interfaces) setFlags(name string, flags uint16) error {
	return c.set(name, unix.SIOCSIFFLAGS, func(i *unix.Ifreq) error {
		i.SetUint16(flags)
		return nil
	})
}

// setHardwareAddress sets a local Ethernet address that ends with the given byte.
func (c interfaces) setHardwareAddress(name string, last byte) error {
	// struct ifreq: the name, and a struct sockaddr.
	request := make([]byte, unix.IFNAMSIZ+24)
	copy(request[:unix.IFNAMSIZ-1], name)
	binary.NativeEndian.PutUint16(request[unix.IFNAMSIZ:], unix.ARPHRD_ETHER)
	copy(request[unix.IFNAMSIZ+2:], []byte{2, 0, 0, 0, 0, last})
	if err := ioctlPointer(c.fd, unix.SIOCSIFHWADDR, request); err != nil {
		return fmt.Errorf("network interface %s: hardware address: %w", name, err)
	}
	return nil
}

// setAddresses takes the address, the mask and the peer, by the request that sets each. It
// sets them in this order, which is the only one that the kernel takes.
func (c interfaces) setAddresses(name string, addresses map[uint]netip.Addr) error {
	for _, request := range []uint{unix.SIOCSIFADDR, unix.SIOCSIFNETMASK, unix.SIOCSIFDSTADDR} {
		a, ok := addresses[request]
		if !ok {
			continue
		}
		err := c.set(name, request, func(i *unix.Ifreq) error { return i.SetInet4Addr(a.AsSlice()) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (c interfaces) set(name string, request uint, fill func(*unix.Ifreq) error) error {
	ifreq, err := unix.NewIfreq(name)
	if err == nil {
		err = fill(ifreq)
	}
	if err == nil {
		err = unix.IoctlIfreq(c.fd, request, ifreq)
	}
	if err != nil {
		return fmt.Errorf("network interface %s: %w", name, err)
	}
	return nil
}

func mask(bits int) netip.Addr {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), bits).Masked().Addr()
}
