// Command customtypes reads Kubernetes objects from standard input and holds those that are no
// part of Kubernetes itself against the types of the projects that define them: an unknown field,
// or one of the wrong type, is an error.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"

	sparkv1beta2 "github.com/kubeflow/spark-operator/v2/api/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

var types = map[metav1.TypeMeta]func() runtime.Object{
	{APIVersion: "monitoring.coreos.com/v1", Kind: "ServiceMonitor"}: func() runtime.Object { return &monitoringv1.ServiceMonitor{} },
	{APIVersion: "monitoring.coreos.com/v1", Kind: "PodMonitor"}:     func() runtime.Object { return &monitoringv1.PodMonitor{} },
	{APIVersion: "monitoring.coreos.com/v1", Kind: "PrometheusRule"}: func() runtime.Object { return &monitoringv1.PrometheusRule{} },
	{APIVersion: "sparkoperator.k8s.io/v1beta2", Kind: "SparkApplication"}: func() runtime.Object {
		return &sparkv1beta2.SparkApplication{}
	},
}

func main() {
	checked, failed := 0, 0
	reader := utilyaml.NewYAMLReader(bufio.NewReader(os.Stdin))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "customtypes:", err)
			os.Exit(2)
		}
		var meta metav1.PartialObjectMetadata
		if err := yaml.Unmarshal(document, &meta); err != nil {
			fmt.Fprintln(os.Stderr, "customtypes:", err)
			os.Exit(2)
		}
		make, known := types[meta.TypeMeta]
		if !known {
			continue
		}
		checked++
		if err := yaml.UnmarshalStrict(document, make()); err != nil {
			fmt.Fprintf(os.Stderr, "customtypes: %s %s: %v\n", meta.Kind, meta.Name, err)
			failed++
		}
	}
	fmt.Printf("%d checked, %d failed\n", checked, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
