package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csi-local/csi-local/test/cluster"
	"github.com/csi-local/csi-local/test/cluster/installed"
	"github.com/csi-local/csi-local/test/screen"
)

const (
	namespace = "default"
	mib       = int64(1) << 20
	// patience bounds what a healthy cluster does within seconds; two processors that
	// share everything can be slow.
	patience = 4 * time.Minute
)

// demo is the cluster and what has been made in it.
type demo struct {
	p              *screen.Printer
	folder         string // for files of programs
	helm, csiLocal string
	c              *cluster.Cluster
	// lost is the node that is given up, moved the StatefulSet's pod that was on it.
	lost  *cluster.Node
	moved string
	// sizeBytes is that of the storm's volumes, stormPods how many they were.
	sizeBytes int64
	stormPods int
}

// kubectl runs it and shows the command.
func (d *demo) kubectl(ctx context.Context, args ...string) (string, error) {
	return d.shown("kubectl "+typed(args), func() (string, error) { return d.c.Kubectl(ctx, args...) })
}

// apply makes objects from a manifest that is shown by the name of a file.
func (d *demo) apply(ctx context.Context, file, yaml string) error {
	_, err := d.shown("kubectl apply -f "+file, func() (string, error) {
		return d.c.KubectlInput(ctx, yaml, "apply", "-f", "-")
	})
	return err
}

// print runs kubectl and shows what it printed, too.
func (d *demo) print(ctx context.Context, args ...string) (string, error) {
	text, err := d.kubectl(ctx, args...)
	d.output(text)
	return text, err
}

// onNode runs a command in the node's kernel and shows both.
func (d *demo) onNode(ctx context.Context, n *cluster.Node, args ...string) error {
	text, err := d.shown(n.Name()+"# "+typed(args), func() (string, error) { return n.Run(ctx, args...) })
	d.output(text)
	return err
}

// host runs a program of this machine and shows it under the name that it has for users.
func (d *demo) host(ctx context.Context, name, path string, args ...string) (string, error) {
	return d.shown(name+" "+typed(args), func() (string, error) {
		cmd := exec.CommandContext(ctx, path, args...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+d.c.Kubeconfig(), "HELM_CACHE_HOME="+d.folder, "HELM_CONFIG_HOME="+d.folder, "HELM_DATA_HOME="+d.folder)
		text, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, text)
		}
		return string(text), err
	})
}

func (d *demo) shown(command string, do func() (string, error)) (string, error) {
	start := time.Now()
	text, err := do()
	sign := "$ "
	if strings.Contains(strings.SplitN(command, " ", 2)[0], "#") {
		sign = ""
	}
	folded := screen.Fold(command, screen.Width-18)
	for i, line := range folded {
		left := "    " + sign + line
		if i > 0 {
			left = "        " + line
		}
		if i < len(folded)-1 {
			d.p.Line("%s \\", left)
			continue
		}
		d.p.Timed(left, time.Since(start))
	}
	return text, err
}

// output prints what a command has printed.
func (d *demo) output(text string) {
	for _, line := range shorten(text) {
		d.p.Note("%s", line)
	}
}

// typed is a command line's arguments, with quotes where a shell wants them.
func typed(args []string) string {
	var words []string
	for _, arg := range args {
		if strings.ContainsAny(arg, ` "{}[]*\;<>|$`) || arg == "" {
			arg = "'" + arg + "'"
		}
		words = append(words, arg)
	}
	return strings.Join(words, " ")
}

// ready waits for pods, and tells how long that took since a time.
func (d *demo) ready(ctx context.Context, since time.Time, pods ...string) error {
	err := installed.Until(ctx, patience, "pods Running", func(ctx context.Context) (string, error) {
		list, err := d.c.Client().CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		var waiting []string
		for _, name := range pods {
			if !slices.ContainsFunc(list.Items, func(p corev1.Pod) bool { return p.Name == name && isReady(&p) }) {
				waiting = append(waiting, name)
			}
		}
		if len(waiting) > 0 {
			return "waiting for " + strings.Join(waiting, ", "), nil
		}
		return "", nil
	})
	if err == nil {
		d.p.Timed(fmt.Sprintf("    %s Running", plural(len(pods), "pod")), time.Since(since))
	}
	return err
}

func isReady(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && cluster.PodReady(pod)
}

func plural(count int, noun string) string {
	if count == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", count, noun)
}

// events are the messages of an object's events of the reasons.
func (d *demo) events(ctx context.Context, object string, reasons ...string) ([]string, error) {
	options := metav1.ListOptions{}
	if object != "" {
		options.FieldSelector = "involvedObject.name=" + object
	}
	list, err := d.c.Client().CoreV1().Events(namespace).List(ctx, options)
	if err != nil {
		return nil, err
	}
	var messages []string
	for _, e := range list.Items {
		if slices.Contains(reasons, e.Reason) {
			messages = append(messages, e.Reason+": "+e.Message)
		}
	}
	return messages, nil
}
