"""The rooms of the three large folders, in the order in which they may include: each sees those above it.

A room is a folder, or files that are to become one: `stem` is a header with its source. tests/tidy.py holds the tree
to this table, so that the order is there before the folders are.
"""
import pathlib

ROOMS = {
    "base": "",
    "topology/tuner": "",
    "topology/graph":
        "cpu_mask discovery figures finding fingerprint graph graph_json hostlist matrix_text nccl_speeds "
        "node_shape paths reader_error xml",
    "topology/fabric": "discovery_graph fabric_findings fabric_shape fabric_text ibnetdiscover rank_file",
    "topology/doctor":
        "doctor doctor_checks doctor_checks_environment doctor_checks_fabric doctor_checks_nic doctor_checks_node "
        "doctor_checks_nvlink doctor_checks_pcie doctor_view",
    "topology/sources":
        "capture cluster_file cluster_graph collect fabric_layout matrix_bridges nccl_graph nccl_xml "
        "nccl_xml_write nvml nvml_calls pci_config read_any scontrol_nodes slurm_topology slurm_writers "
        "smi_nvlink smi_text smi_topo switch_lines sysfs topology_file",
    "topology/nccl": "allocation communication_curve cost_model measured_curve nccl_tables nccl_tests_log",
    "topology/plan":
        "bucket bucket_choice bucket_programme plan plan_store step_gantt step_timeline step_timeline_json "
        "tuner_csv tuner_table tuning",
    "checkpoint": "",
    "trainer/contract": "",
    "trainer/data": "",
    "trainer/device":
        "device device_peak forwarding_device half_types plugin_entry shape_checks unfused_device",
    "trainer/cpu": "",
    "trainer/ranks":
        "borrowed_communicator communicator delayed_communicator host_collectives node_layout rank_agreement "
        "rank_star rendezvous tcp_host",
    "trainer/mpi": "",
    "trainer/nccl": "",
    "trainer/cuda": "",
    "trainer/plugins":
        "cuda_plugin environment make_device mpi_plugin plugin_loader rank_group tuner_agreement",
    "trainer/watch": "hang_report process_stacks standings watch_link watchdog",
    "trainer/samples":
        "batch batch_prefetcher collator permutation random_samples sample_parcel sample_stream sampler "
        "step_samples",
    "trainer/model": "activation_layout batch_room bert initial_weights input_feed",
    "trainer/step":
        "buckets divergence evaluation gradient_reducer loss_scaler memory_needs noise_probe optimizer "
        "plan_learning plan_trial schedule snapshot step_pace train_loop weight_gatherer",
    "trainer/run":
        "attempt attempt_divergence checkpoint_choice checkpoint_evaluation checkpoint_keeper checkpoint_writer "
        "deadline end_on_signal journal_writer launcher rollback stop_signals training_run",
    "trainer/interchange":
        "hugging_face hugging_face_weights model_export model_import question_head staged_directory "
        "tensorflow_weights",
    "trainer/bench":
        "bench_ablation bench_balance bench_checkpoint bench_comm bench_commands bench_kernel_cases "
        "bench_kernel_rows bench_kernels bench_lengths bench_overlap bench_plan bench_ranks bench_step",
    "trainer/cli": "eval_command interchange_commands main option_checks",
    "orchestrator/frozen": "",
    "orchestrator/files":
        "directory_lock disk_reserve lease_record mount_table name_locks network_file_system runs_directory_lease "
        "shared_files side_work troubles trusted_peer work_lane",
    "orchestrator/runs": "run run_records scheduler time_to_accuracy trainer_program",
    "orchestrator/slurm": "node_table slurm_scheduler",
    "orchestrator/text": "terminal",
    "orchestrator/store": "database reader_pool schema series store store_reads store_series",
    "orchestrator/site": "data_directory site_defaults trainer_environment",
    "orchestrator/plan":
        "cluster_machines compute_model peak_share plan_decisions plan_inputs plan_seats planner run_plan "
        "step_model",
    "orchestrator/simulate": "mlperf_rows mlperf_study run_forecast simulation simulation_text",
    "orchestrator/control":
        "controller controller_adopt controller_remove controller_submit controller_visit dependencies follower "
        "journal_pulse launcher local_scheduler node_avoidance node_judge open_run reconcile run_lookup "
        "run_reading run_removal scheduler_choice",
    "orchestrator/checkpoints": "checkpoint_exports checkpoint_tools",
    "orchestrator/api":
        "access answers api checkpoint_api connections exchange explain http listeners node_json opening page "
        "removal_api request_head routes run_json server shown_config",
    "orchestrator/cli":
        "ckpt_commands cli client client_commands command_choices commands config_command diff_command "
        "doctor_command main nodes_command nodes_text open_command plan_command plan_text remove_command "
        "sbatch_command sbatch_freeze serve_command simulate_command topo_commands watch_command",
}
ORDER = list(ROOMS)
ROOM_OF = {f"{room.split('/')[0]}/{stem}": room for room, stems in ROOMS.items() for stem in stems.split()}
# Against the order, until what they need is carved out.
KNOWN = {
    ("orchestrator/site_defaults", "orchestrator/commands"),   # struct Environment
    ("orchestrator/data_directory", "orchestrator/commands"),  # the same
    ("orchestrator/step_model", "orchestrator/mlperf_study"),  # its constants
}


def stem_of(path):
    return str(pathlib.PurePosixPath(path).with_suffix(""))


def room_of(path):
    """Of a file of the product; None for one that is in no room."""
    parts = pathlib.PurePosixPath(path).parts
    if parts[0] in ("base", "checkpoint"):
        return parts[0]
    if len(parts) > 2:
        room = "/".join(parts[:2])
        return room if room in ROOMS else None
    return ROOM_OF.get(stem_of(path))


def against_order(path, header):
    """Why `path` may not include the product's `header`, or None."""
    here, there = room_of(path), room_of(header)
    if here is None or there is None or ORDER.index(there) <= ORDER.index(here):
        return None
    if (stem_of(path), stem_of(header)) in KNOWN:
        return None
    return f"{here} comes before {there} (tests/rooms.py)"
