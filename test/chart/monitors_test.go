package chart

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// monitor is what the Prometheus operator needs to know: pods by their component, and the
// names of ports.
type monitor struct {
	Spec struct {
		Selector struct {
			MatchLabels      map[string]string
			MatchExpressions []struct{ Values []string }
		}
		PodMetricsEndpoints, Endpoints []struct{ Port, Scheme string }
	}
}

const componentLabel = "app.kubernetes.io/component"

// Each kind of pod is read by a monitor, at ports that it has.
func TestMonitors_FindEachPod(t *testing.T) {
	out, err := template(t, "--set", "metrics.monitors=true")
	if err != nil {
		t.Fatal(out)
	}
	ports, read := map[string][]string{}, map[string][]string{}
	for _, object := range documents(t, out) {
		switch object["kind"] {
		case "DaemonSet":
			addPorts(ports, as[appsv1.DaemonSet](t, object).Spec.Template)
		case "Deployment":
			addPorts(ports, as[appsv1.Deployment](t, object).Spec.Template)
		case "PodMonitor":
			m := decode[monitor](t, object)
			for _, component := range m.Spec.Selector.MatchExpressions[0].Values {
				for _, endpoint := range m.Spec.PodMetricsEndpoints {
					read[component] = append(read[component], endpoint.Port)
				}
			}
		case "ServiceMonitor":
			m := decode[monitor](t, object)
			component := m.Spec.Selector.MatchLabels[componentLabel]
			if m.Spec.Endpoints[0].Scheme != "https" {
				t.Error("kube-scheduler serves no plain HTTP")
			}
			read[component] = append(read[component], m.Spec.Endpoints[0].Port)
		case "Service":
			service := as[corev1.Service](t, object)
			if port := service.Spec.Ports[0]; port.Name != port.TargetPort.StrVal {
				t.Errorf("service port %s is for the pods' port %s", port.Name, port.TargetPort.StrVal)
			}
		}
	}
	for component, names := range ports {
		if len(names) == 0 {
			t.Errorf("%s has no ports", component)
		}
		for _, name := range names {
			if !slices.Contains(read[component], name) {
				t.Errorf("nobody reads port %s of %s", name, component)
			}
		}
	}
	if len(ports) != 3 {
		t.Errorf("%v", ports)
	}
}

func addPorts(ports map[string][]string, pod corev1.PodTemplateSpec) {
	component := pod.Labels[componentLabel]
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			ports[component] = append(ports[component], port.Name)
		}
	}
}

// labelsIn are the labels and values that a query or a text asks for.
func labelsIn(query string) (labels, values []string) {
	for _, match := range regexp.MustCompile(`([a-z_]+)=~?"([^"]*)"`).FindAllStringSubmatch(query, -1) {
		labels = append(labels, match[1])
		if !strings.Contains(match[2], "$") { // a variable of the dashboard
			values = append(values, strings.Split(match[2], "|")...)
		}
	}
	for _, match := range regexp.MustCompile(`by \(([^)]*)\)`).FindAllStringSubmatch(query, -1) {
		labels = append(labels, strings.Split(match[1], ", ")...)
	}
	for _, match := range regexp.MustCompile(`\$labels\.([a-z_]+)`).FindAllStringSubmatch(query, -1) {
		labels = append(labels, match[1])
	}
	return labels, values
}

// Labels and their values are declared where the metrics are.
func TestMonitoring_AsksForLabelsThatAreThere(t *testing.T) {
	declared := declarations(t)
	for name, query := range queries(t) {
		var text string
		for _, metric := range metricName().FindAllString(query, -1) {
			text += declared[sourceOf(declared, metric)]
		}
		labels, values := labelsIn(query)
		for _, word := range append(labels, values...) {
			// le is every histogram's, node comes from the monitor.
			if word != "le" && word != "node" && !strings.Contains(text, `"`+word+`"`) {
				t.Errorf("%s: nothing declares %q", name, word)
			}
		}
	}
	labels, values := labelsIn(`sum by (node, pool) (a{class=~"x|y"}) {{ $labels.reason }}`)
	if !slices.Equal(labels, []string{"class", "node", "pool", "reason"}) || !slices.Equal(values, []string{"x", "y"}) {
		t.Errorf("labels %q, values %q", labels, values)
	}
}
