package driver

import (
	"context"
	"fmt"
	"path/filepath"
	"time"
)

// deviceWait bounds the wait for a device node that udevd may still be making.
const deviceWait, devicePoll = 5 * time.Second, 20 * time.Millisecond

// device is a volume's device, checked: path is a block device with that number.
// It is the node itself and no link, so that everything that is done with the
// device is done with the same one, even if a link is turned meanwhile.
type device struct {
	path   string
	number DeviceNumber
}

// numberOf is the device number of an active volume, {-1,-1} otherwise.
func numberOf(v volume) DeviceNumber {
	if !v.Active || v.Major < 0 {
		return noDevice()
	}
	return DeviceNumber{Major: v.Major, Minor: v.Minor}
}

// openDevice returns the volume's device, activating the volume if need be. It
// goes by the number that LVM reports, so a stale link that leads to another
// device is never followed. A device that does not appear in time is
// errNotReady: it says nothing about what is in it.
func (d *Driver) openDevice(ctx context.Context, v volume) (device, error) {
	if number := numberOf(v); number != noDevice() {
		if path, err := d.findDevice(v, number); err == nil {
			return device{path: path, number: number}, nil
		}
	}
	lv, err := d.activate(ctx, v)
	if err != nil {
		return device{}, err
	}
	v.LogicalVolume = lv
	number := numberOf(v)
	if number == noDevice() {
		return device{}, fmt.Errorf("%w: volume %s has no device after activation", errNotReady, v.ID())
	}
	path, err := d.awaitDevice(ctx, v, number)
	if err != nil {
		return device{}, fmt.Errorf("%w: device of volume %s: %w", errNotReady, v.ID(), err)
	}
	return device{path: path, number: number}, nil
}

// awaitDevice looks for the device until deviceWait is over or ctx ends, whose error
// it is then, too. Who makes the node (udevd) gives no sign when it has.
func (d *Driver) awaitDevice(ctx context.Context, v volume, number DeviceNumber) (string, error) {
	waiting, cancel := context.WithTimeout(ctx, deviceWait)
	defer cancel()
	tick := time.NewTicker(devicePoll)
	defer tick.Stop()
	for {
		path, err := d.findDevice(v, number)
		if err == nil {
			return path, nil
		}
		select {
		case <-tick.C:
		case <-waiting.Done():
			if ctx.Err() != nil {
				return "", fmt.Errorf("%w: %w", ctx.Err(), err)
			}
			return "", err
		}
	}
}

// findDevice returns the device's node: where LVM's own link leads, or device
// mapper's name in case the link is gone.
func (d *Driver) findDevice(v volume, number DeviceNumber) (string, error) {
	node, err := d.checkNode(v.Path, number)
	if err == nil {
		return node, nil
	}
	mapped := filepath.Join(filepath.Dir(filepath.Dir(v.Path)), "mapper", mapperName(v.VolumeGroup, v.Name))
	if node, err := d.checkNode(mapped, number); err == nil {
		return node, nil
	}
	return "", err
}

// checkNode returns the node to which path leads, if it has that number.
func (d *Driver) checkNode(path string, number DeviceNumber) (string, error) {
	node, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	return node, d.devices.Check(node, number.Major, number.Minor)
}
