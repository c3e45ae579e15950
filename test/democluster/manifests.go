package main

import (
	"fmt"

	"github.com/csi-local/csi-local/test/cluster"
)

const rebuiltClass = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: local-rebuilt
  annotations: {kubernetes.io.csi.local/on-lost-node: delete-claim}
provisioner: kubernetes.io.csi.local
parameters: {pool: pool-ssd}
volumeBindingMode: WaitForFirstConsumer
`

// forever writes a line and stays.
const forever = "echo started >> /data/log; sync; exec sleep 1000000"

// statefulSet has its pods on different nodes as long as there are two.
func statefulSet() string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: 2
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      schedulerName: csi-local-scheduler
      terminationGracePeriodSeconds: 1
      affinity:
        podAntiAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
          - weight: 100
            podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}
      containers:
      - {name: main, image: %q, command: [sh, -c, %q], volumeMounts: [{name: data, mountPath: /data}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {storageClassName: local-rebuilt, accessModes: [ReadWriteOnce], resources: {requests: {storage: %d}}}
`, cluster.TestImage, forever, dbBytes)
}

// claimAndPod has one name for both; more is added to the pod's spec.
func claimAndPod(name string, bytes int64, more string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %[1]s, labels: {app: storm}}
spec:
  storageClassName: local-dynamic-ssd
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: %[2]d}}
---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, labels: {app: storm}}
spec:
  schedulerName: csi-local-scheduler
  terminationGracePeriodSeconds: 1
  %[5]s
  containers:
  - {name: main, image: %[3]q, command: [sh, -c, %[4]q], volumeMounts: [{name: data, mountPath: /data}]}
  volumes:
  - {name: data, persistentVolumeClaim: {claimName: %[1]s}}
`, name, bytes, cluster.TestImage, forever, more)
}
