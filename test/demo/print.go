package main

import (
	"github.com/csi-local/csi-local/test/screen"
	"github.com/csi-local/csi-local/test/vm"
)

func introduce(p *screen.Printer, count int) {
	p.Line("%s: the life of real volumes on real LVM\n", p.Paint(screen.Bold, "csi-local demo"))
	p.Line("  what     Two pools are made, one thick and one thin. The driver is started as a user would")
	p.Line("           start it. Then come the calls that csi-provisioner and kubelet make: create, stage,")
	p.Line("           publish, expand, and so on until all is deleted.")
	p.Line("  shown    after each step what changed in LVM (lvs, vgs) and in the mount table, and the time")
	p.Line("  length   %d steps, about a minute; the first run also compiles", count)
}

func showPlace(p *screen.Printer, backend vm.Backend) {
	text := "in a throwaway kernel (user-mode Linux); this machine's disks are not touched, and\n" +
		"           whatever starts a process takes several times as long as on a real node"
	if backend == vm.Host {
		text = "on this machine's own kernel, on loop devices that are removed afterwards"
	}
	p.Line("  where    %s", text)
}

func showChange(p *screen.Printer, c change) {
	color := map[changeKind]screen.Color{added: screen.Green, changed: screen.Yellow, removed: screen.Red}[c.kind]
	p.Line("    %-6s %s", c.source, p.Paint(color, string(c.kind)+" "+c.text))
}
