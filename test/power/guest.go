// Package power cuts the power of a machine in the middle of a random load, many
// times, and holds what the disks then have to what was promised before.
package power

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/csi-local/csi-local/test/nodeproc"
)

const (
	thickGroup = "power-thick"
	thinGroup  = "power-thin"
	thinPool   = "pool"
)

const poolsFile = `pools:
- name: thick
  volumeGroup: power-thick
  type: thick
- name: thin
  volumeGroup: power-thin
  type: thin
  thinPool: pool
  overprovisionRatio: 10
`

// Names of the guest's environment.
const (
	envBinary  = "POWER_BINARY"
	envJournal = "POWER_JOURNAL"
	envRound   = "POWER_ROUND"
)

// Marks in the guest's output.
const (
	markVerified   = "verified:"
	verifiedFormat = " %d volumes and %d synced pieces intact"
	markLoad       = "under load"
)

// guest is one life of the machine: look at what the last one left, then work
// until the power is cut.
func guest(ctx context.Context) error {
	round, err := strconv.ParseUint(os.Getenv(envRound), 10, 32)
	if err != nil {
		return err
	}
	if round == 0 {
		if err := makePools(ctx, strings.Fields(os.Getenv("VM_DISKS"))); err != nil {
			return err
		}
	}
	folder, err := os.MkdirTemp("", "power")
	if err != nil {
		return err
	}
	node, err := nodeproc.Start(ctx, nodeproc.Options{Binary: os.Getenv(envBinary), Folder: folder, Pools: poolsFile})
	if err != nil {
		return err
	}
	volumes, err := readJournal(os.Getenv(envJournal))
	if err != nil {
		return err
	}
	journal, err := openJournal(os.Getenv(envJournal))
	if err != nil {
		return err
	}
	intact, slots, err := verify(ctx, node, journal, volumes)
	if err != nil {
		log, logErr := os.ReadFile(node.LogFile())
		return errors.Join(fmt.Errorf("%w; the driver's log:\n%s", err, log), logErr)
	}
	fmt.Printf(markVerified+verifiedFormat+"\n", intact, slots)
	fmt.Println(markLoad)
	return runLoad(ctx, node, journal, fmt.Sprintf("round-%d", round), round)
}

func makePools(ctx context.Context, disks []string) error {
	if len(disks) < 2 {
		return fmt.Errorf("two disks are needed, got %v", disks)
	}
	for _, args := range [][]string{
		{"vgcreate", "-y", "-ff", thickGroup, disks[0]},
		{"vgcreate", "-y", "-ff", thinGroup, disks[1]},
		{"lvcreate", "-y", "--type", "thin-pool", "-l", "90%FREE", "-n", thinPool, thinGroup},
	} {
		if output, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, output)
		}
	}
	return nil
}
