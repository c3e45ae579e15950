package e2e

import (
	"fmt"
	"strings"

	"github.com/csi-local/csi-local/test/cluster"
)

// claim is a PersistentVolumeClaim's YAML.
func claim(name, class string, bytes int64, more ...string) string {
	lines := []string{"storageClassName: " + class}
	if !strings.Contains(strings.Join(more, " "), "accessModes") {
		more = append(more, "accessModes: [ReadWriteOnce]")
	}
	lines = append(lines, more...)
	return fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %s}
spec:
  %s
  resources: {requests: {storage: %d}}
`, name, strings.Join(lines, "\n  "), bytes)
}

// pod is the YAML of a pod that runs a shell's script in a container "main" and ends a
// second after it is told to; at once would be by force, with its volumes mounted. volumes
// are name -> the volume's source, in YAML's flow style; each is mounted at /NAME, or is
// the device /dev/NAME if the name begins with block. more is added to its spec.
func pod(name, script string, volumes map[string]string, more ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  schedulerName: %s
  terminationGracePeriodSeconds: 1
`, name, scheduler)
	for _, line := range more {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	fmt.Fprintf(&b, "  containers:\n  - name: main\n    image: %s\n    command: [sh, -c, %q]\n", cluster.TestImage, script)
	if len(volumes) == 0 {
		return b.String()
	}
	mounts, devices, sources := "    volumeMounts:\n", "", "  volumes:\n"
	for name, source := range volumes {
		sources += fmt.Sprintf("  - {name: %s, %s}\n", name, source)
		if strings.HasPrefix(name, "block") {
			devices += fmt.Sprintf("    - {name: %s, devicePath: /dev/%s}\n", name, name)
		} else {
			mounts += fmt.Sprintf("    - {name: %s, mountPath: /%s}\n", name, name)
		}
	}
	if devices != "" {
		mounts += "    volumeDevices:\n" + devices
	}
	return b.String() + mounts + sources
}

// ofClaim is a pod's volume.
func ofClaim(name string) string { return fmt.Sprintf("persistentVolumeClaim: {claimName: %s}", name) }

// ephemeral is a volume that comes and goes with its pod, by a claim of its own.
func ephemeral(bytes int64) string {
	return fmt.Sprintf("ephemeral: {volumeClaimTemplate: {spec: {storageClassName: %s, accessModes: [ReadWriteOnce], resources: {requests: {storage: %d}}}}}", class, bytes)
}

// inline is a volume that is the driver's alone, with these attributes.
func inline(attributes string) string {
	return fmt.Sprintf("csi: {driver: %s, volumeAttributes: {%s}}", driver, attributes)
}

// on is a line of the spec of a pod that is to be on that node.
func on(n *cluster.Node) string { return "nodeSelector: {kubernetes.io/hostname: " + n.Name() + "}" }

// forever keeps a pod running.
const forever = "exec sleep 1000000"
