package vm

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const tunDevice = "/dev/net/tun"

// guestInterface is what user-mode Linux calls its first vector device.
const guestInterface = "vec0"

// The last byte of the outside's Ethernet address, which is a local one, while the machine
// is connected and while it is not.
const (
	knownHardware   = 1
	strangeHardware = 2
)

// tapName makes of the address a name that fits into the kernel's 15 bytes. As it is
// unique in the network, no two machines get one address.
func tapName(a netip.Addr) string { return "vm" + strings.ReplaceAll(a.String(), ".", "-") }

// openTap makes an Ethernet interface whose other end is the returned file, and the way to
// the address. It vanishes when nobody has the file open any more.
//
// The kernel gets the file, and not the interface's name: then it need not be in the
// network itself, packets carry no header that both sides would have to agree on, and the
// host's kernel cuts large ones up before it hands them over.
func openTap(a netip.Addr) (_ *os.File, err error) {
	// In Go's poller the file would become one that does not block the kernel.
	fd, err := unix.Open(tunDevice, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, noNetwork(tunDevice+" cannot be opened", err)
	}
	file := os.NewFile(uintptr(fd), tunDevice)
	defer func() {
		if err != nil {
			file.Close()
		}
	}()
	ifreq, err := unix.NewIfreq(tapName(a))
	if err != nil {
		return nil, err
	}
	ifreq.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, ifreq); err != nil {
		return nil, fmt.Errorf("a machine with address %v: %w", a, err)
	}
	err = configure(func(c interfaces) error {
		err := c.setAddresses(tapName(a), map[uint]netip.Addr{
			unix.SIOCSIFADDR: netip.MustParseAddr(HostAddress), unix.SIOCSIFNETMASK: mask(32), unix.SIOCSIFDSTADDR: a,
		})
		if err != nil {
			return err
		}
		return errors.Join(c.setHardwareAddress(tapName(a), knownHardware), c.setFlags(tapName(a), unix.IFF_UP))
	})
	return file, err
}

// guestNetworkUp gives the throwaway kernel its addresses: loopback, and that of the
// options if there is one.
func guestNetworkUp(address string) error {
	return configure(func(c interfaces) error {
		if err := c.setFlags("lo", unix.IFF_UP); err != nil || address == "" {
			return err
		}
		a, err := netip.ParseAddr(address)
		if err != nil {
			return err
		}
		err = c.setAddresses(guestInterface, map[uint]netip.Addr{unix.SIOCSIFADDR: a, unix.SIOCSIFNETMASK: mask(subnetBits)})
		if err != nil {
			return err
		}
		return c.setFlags(guestInterface, unix.IFF_UP)
	})
}

// Disconnect cuts a throwaway kernel from the network, as if a switch on the way had died:
// nothing passes in either direction, and neither side is told. It returns ErrNoCable for a
// machine without an address and on the Host backend, whose command is in the caller's own
// network.
func (m *Machine) Disconnect() error { return m.connect(false) }

// Reconnect undoes Disconnect.
func (m *Machine) Reconnect() error { return m.connect(true) }

// connect leaves the interface up in any case: user-mode Linux stops sending for good when
// it is down. Instead, the outside does not look anybody up and gives nobody an answer, and
// has an address that the kernel does not know.
func (m *Machine) connect(to bool) error {
	if m.backend != UML || !m.opts.Address.IsValid() {
		return ErrNoCable
	}
	name := tapName(m.opts.Address)
	return configure(func(c interfaces) error {
		if to {
			return errors.Join(c.setHardwareAddress(name, knownHardware), c.setFlags(name, unix.IFF_UP))
		}
		return errors.Join(c.setFlags(name, unix.IFF_UP|unix.IFF_NOARP), c.setHardwareAddress(name, strangeHardware))
	})
}
