package api

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Published is the condition that is True if a Setting is in the ConfigMap.
const Published = "Published"

// A Setting is one key and value in the ConfigMap of its namespace.
type Setting struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   SettingSpec   `json:"spec"`
	Status SettingStatus `json:"status,omitzero"`
}

// SettingSpec is the part of a Setting that is written into the ConfigMap.
type SettingSpec struct {
	// Key is the key in the ConfigMap. If several Settings have the same key,
	// the oldest Setting is used.
	Key string `json:"key"`
	// Value is the value of the key.
	Value string `json:"value,omitempty"`
}

// SettingStatus is the result of the last reconcile.
type SettingStatus struct {
	// Conditions contains the condition Published.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SettingList is a list of Settings.
type SettingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Setting `json:"items"`
}
