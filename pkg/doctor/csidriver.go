package doctor

import (
	"fmt"
	"slices"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/csi-local/csi-local/pkg/inspect"
)

func csiDriverChecks() []Check {
	return []Check{
		{"csidriver-missing", Error, "Kubernetes assumes defaults without it: volumes wait to be attached, which nobody does, and inline volumes are refused", findNoCSIDriver},
		{"csidriver-fields", Error, "Kubernetes treats the driver's volumes by these fields", findCSIDriverFields},
		{"csidriver-storage-capacity", Error, "kube-scheduler looks for CSIStorageCapacity objects, which nobody makes here, and places no pod with a new volume", findStorageCapacity},
	}
}

func csiDriverObject(s *inspect.Snapshot) Object { return Object{Kind: "csidriver", Name: s.Driver} }

func findNoCSIDriver(s *inspect.Snapshot) []Problem {
	return problemIf(s.CSIDriver == nil && s.Install.DaemonSet != nil, Problem{
		Object: csiDriverObject(s), Wrong: "there is no such object", Command: reinstall(s), Repairs: true,
	})
}

// patchDriver changes a field that can be changed.
func patchDriver(s *inspect.Snapshot, field, value string) string {
	return fmt.Sprintf(`kubectl patch csidriver %s --type=merge -p '{"spec":{"%s":%s}}'`, s.Driver, field, value)
}

func findCSIDriverFields(s *inspect.Snapshot) []Problem {
	if s.CSIDriver == nil {
		return nil
	}
	var found []Problem
	add := func(command, format string, args ...any) {
		found = append(found, Problem{Object: csiDriverObject(s), Wrong: fmt.Sprintf(format, args...), Command: command, Repairs: true})
	}
	spec := &s.CSIDriver.Spec
	isTrue := func(b *bool) bool { return b != nil && *b }
	if spec.AttachRequired == nil || *spec.AttachRequired {
		add(remake("csidriver", "", s.Driver, "s/^  attachRequired: .*/  attachRequired: false/"),
			"attachRequired is not false, so pods wait for a VolumeAttachment that nobody fulfils")
	}
	if !isTrue(spec.PodInfoOnMount) {
		add(patchDriver(s, "podInfoOnMount", "true"), "podInfoOnMount is not true, so the driver is not told whose an inline volume is")
	}
	if !isTrue(spec.PreventPodSchedulingIfMissing) {
		add(patchDriver(s, "preventPodSchedulingIfMissing", "true"), "preventPodSchedulingIfMissing is not true, so pods are placed where the driver does not run")
	}
	if spec.NodeAllocatableUpdatePeriodSeconds == nil {
		add(patchDriver(s, "nodeAllocatableUpdatePeriodSeconds", "60"), "nodeAllocatableUpdatePeriodSeconds is not set, so kubelet never asks again how many volumes fit")
	}
	if spec.FSGroupPolicy == nil || *spec.FSGroupPolicy != storagev1.FileFSGroupPolicy {
		add(remake("csidriver", "", s.Driver, "s/^  fsGroupPolicy: .*/  fsGroupPolicy: File/"), "fsGroupPolicy is not File, so fsGroup of pods may have no effect")
	}
	for _, mode := range []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral} {
		if !slices.Contains(spec.VolumeLifecycleModes, mode) {
			add(fmt.Sprintf("kubectl delete csidriver %s && %s", s.Driver, reinstall(s)), "volumeLifecycleModes has no %s", mode)
		}
	}
	return found
}

func findStorageCapacity(s *inspect.Snapshot) []Problem {
	wrong := s.CSIDriver != nil && s.Install.DaemonSet != nil && s.CSIDriver.Spec.StorageCapacity != nil && *s.CSIDriver.Spec.StorageCapacity && !countsByObjects(s)
	return problemIf(wrong, Problem{
		Object: csiDriverObject(s), Wrong: "storageCapacity is true, and csi-provisioner runs without --enable-capacity",
		Command: patchDriver(s, "storageCapacity", "false"), Repairs: true,
	})
}
