-- A log of revision 0001 in PostgreSQL 15, as pg_dump --inserts writes it; without a schema's name.
CREATE TABLE device (
    id integer NOT NULL,
    digest character varying(64) NOT NULL,
    data text NOT NULL
);
CREATE SEQUENCE device_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE device_id_seq OWNED BY device.id;
CREATE TABLE run (
    id integer NOT NULL,
    uid character varying(32) NOT NULL,
    workload_id integer NOT NULL,
    target_id integer NOT NULL,
    device_id integer NOT NULL,
    space_fingerprint text NOT NULL,
    sampler text NOT NULL,
    seed text NOT NULL,
    options text NOT NULL,
    versions text NOT NULL,
    state text NOT NULL,
    started_at double precision NOT NULL,
    finished_at double precision
);
CREATE SEQUENCE run_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE run_id_seq OWNED BY run.id;
CREATE TABLE target (
    id integer NOT NULL,
    digest character varying(64) NOT NULL,
    data text NOT NULL
);
CREATE SEQUENCE target_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE target_id_seq OWNED BY target.id;
CREATE TABLE trial (
    id integer NOT NULL,
    run_id integer NOT NULL,
    number integer NOT NULL,
    workload_id integer NOT NULL,
    target_id integer NOT NULL,
    device_id integer NOT NULL,
    space_fingerprint text NOT NULL,
    config text NOT NULL,
    flop double precision NOT NULL,
    status text NOT NULL,
    stage text NOT NULL,
    cost double precision,
    costs text NOT NULL,
    error text NOT NULL,
    program_hash text NOT NULL,
    timings text NOT NULL,
    environment text NOT NULL,
    "timestamp" double precision NOT NULL
);
CREATE SEQUENCE trial_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE trial_id_seq OWNED BY trial.id;
CREATE TABLE whet_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE workload (
    id integer NOT NULL,
    digest character varying(64) NOT NULL,
    template text NOT NULL,
    data text NOT NULL
);
CREATE SEQUENCE workload_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE workload_id_seq OWNED BY workload.id;
ALTER TABLE ONLY device ALTER COLUMN id SET DEFAULT nextval('device_id_seq'::regclass);
ALTER TABLE ONLY run ALTER COLUMN id SET DEFAULT nextval('run_id_seq'::regclass);
ALTER TABLE ONLY target ALTER COLUMN id SET DEFAULT nextval('target_id_seq'::regclass);
ALTER TABLE ONLY trial ALTER COLUMN id SET DEFAULT nextval('trial_id_seq'::regclass);
ALTER TABLE ONLY workload ALTER COLUMN id SET DEFAULT nextval('workload_id_seq'::regclass);
INSERT INTO device VALUES (1, 'c0c0794dfadec461507d69bb7f5082774f1e91f2ac159c94c0495220714aadad', '{"cpu":"AMD EPYC","arch":"x86_64","llvm_name":"znver4","features":["adx","avx","avx2","avx512bf16","avx512bitalg","avx512bw","avx512cd","avx512dq","avx512f","avx512ifma","avx512vbmi","avx512vbmi2","avx512vl","avx512vnni","avx512vpopcntdq","bmi","bmi2","cx16","f16c","fma","gfni","lzcnt","movbe","popcnt","sahf","sse3","sse4.1","sse4.2","ssse3"],"vector_bytes":64,"caches":{"L1":32768,"L2":1048576,"L3":33554432},"logical_cpus":2,"affinity":[0,1],"physical_cores":2,"cpu_quota":null,"num_threads":2,"fingerprint":"cpu-75ba327c02c6"}');
INSERT INTO device VALUES (2, '4cfdaeff73dff9f3af5ee707a83116404dce17a43b2413367e5bcafb471e1a11', '{"fingerprint":"cuda-emulator-a100-v5","name":"cuda-emulator (model of NVIDIA A100 80GB SXM)","arch":"sm_80","cost":"model"}');
INSERT INTO device VALUES (3, 'c94cb0a4fa39ae06c9e0ff7ea0e7928c5bb908e224d66b1b302a437f40412d73', '{"fingerprint":"cuda-emulator-h200-v5","name":"cuda-emulator (model of NVIDIA H200 SXM)","arch":"sm_90","cost":"model"}');
INSERT INTO run VALUES (1, 'b781133adc5c4ba0b7b745256424af6d', 1, 1, 1, 'd8b8756ce8ba05b60fecb81c372cfc7d', 'random', '0', '{"build_timeout":10.0,"run_timeout":10.0,"number":null,"repeat":10,"min_repeats":3,"min_repeat_ms":10.0,"max_measure_s":0.1,"spread":0.01,"slow_factor":3.0,"behind":1.15,"hopeless_factor":20.0,"memory_limit":null,"check":true,"flush_l2":false,"seed":0,"rtol":null,"search":{"trials":5,"tasks":1,"call":["d871cf5e3b13dc06",1795352272.8334303],"weight":1.0,"level":"full","peak":116959839375.53749,"transfer":1795352272.8334303,"timeout":null,"target_cost":null,"early_stop":false}}', '{"python":"3.11.7","whet":"0.1.0","numpy":"2.4.6","llvmlite":"0.50.0","optuna":"5.0.0","xgboost-cpu":"3.2.0","ray":"2.60.0"}', 'finished', 1795352281.541693, 1795352282.8897524);
INSERT INTO run VALUES (2, 'c742705ac15d4c87a0df338399c3a6c4', 1, 1, 1, 'd8b8756ce8ba05b60fecb81c372cfc7d', 'finalists', '0', '{"build_timeout":10.0,"run_timeout":10.0,"number":null,"repeat":10,"min_repeats":3,"min_repeat_ms":10.0,"max_measure_s":0.1,"spread":0.01,"slow_factor":3.0,"behind":1.15,"hopeless_factor":20.0,"memory_limit":null,"check":true,"flush_l2":false,"seed":0,"rtol":null,"search":{"trials":5,"tasks":1,"call":["d871cf5e3b13dc06",1795352272.8334303],"weight":1.0,"level":"full","peak":116959839375.53749,"transfer":1795352272.8334303,"timeout":null,"target_cost":null,"early_stop":false}}', '{"python":"3.11.7","whet":"0.1.0","numpy":"2.4.6","llvmlite":"0.50.0","optuna":"5.0.0","xgboost-cpu":"3.2.0","ray":"2.60.0"}', 'finished', 1795352286.0541422, 1795352286.1467652);
INSERT INTO run VALUES (3, '73d415debb274686a0024dd755daabcb', 2, 1, 1, '49d92225a066842ba3c6445966b1bc28', 'xgb', '1', '{"build_timeout":10.0,"run_timeout":10.0,"number":null,"repeat":10,"min_repeats":3,"min_repeat_ms":10.0,"max_measure_s":0.1,"spread":0.01,"slow_factor":3.0,"behind":1.15,"hopeless_factor":20.0,"memory_limit":null,"check":true,"flush_l2":false,"seed":0,"rtol":null,"search":{"trials":5,"tasks":1,"call":["0d086d701f7de041",1795352286.3557253],"weight":1.0,"level":"full","peak":116959839375.53749,"transfer":1795352286.3557253,"timeout":null,"target_cost":null,"early_stop":false}}', '{"python":"3.11.7","whet":"0.1.0","numpy":"2.4.6","llvmlite":"0.50.0","optuna":"5.0.0","xgboost-cpu":"3.2.0","ray":"2.60.0"}', 'finished', 1795352292.4049072, 1795352294.426979);
INSERT INTO run VALUES (4, 'a8547204a5814413aacf652e6e702e96', 2, 1, 1, '49d92225a066842ba3c6445966b1bc28', 'finalists', '1', '{"build_timeout":10.0,"run_timeout":10.0,"number":null,"repeat":10,"min_repeats":3,"min_repeat_ms":10.0,"max_measure_s":0.1,"spread":0.01,"slow_factor":3.0,"behind":1.15,"hopeless_factor":20.0,"memory_limit":null,"check":true,"flush_l2":false,"seed":0,"rtol":null,"search":{"trials":5,"tasks":1,"call":["0d086d701f7de041",1795352286.3557253],"weight":1.0,"level":"full","peak":116959839375.53749,"transfer":1795352286.3557253,"timeout":null,"target_cost":null,"early_stop":false}}', '{"python":"3.11.7","whet":"0.1.0","numpy":"2.4.6","llvmlite":"0.50.0","optuna":"5.0.0","xgboost-cpu":"3.2.0","ray":"2.60.0"}', 'finished', 1795352297.5259583, 1795352297.6071513);
INSERT INTO target VALUES (1, '0ea4132f30256c096342b2fd07561b066fd342183bc836a01ea4336f869f80c4', '{"kind":"llvm","mattr":"","mcpu":"x86-64-v3","mtriple":"x86_64-unknown-linux-gnu","num_threads":1,"vector_bytes":32}');
INSERT INTO target VALUES (2, '379da243023f7ab29186697ed1a824d3368a24ad22fb6c3fdf697b3c3688216d', '{"kind":"cuda","arch":"sm_80","max_num_threads":1024,"max_shared_memory_per_block":166912,"max_threads_per_block":1024,"registers_per_block":65536,"thread_warp_size":32}');
INSERT INTO target VALUES (3, '64c2ceb2dfef302065b58c6f98ca34a60707af81e2b7101384c920f48835c0c8', '{"kind":"cuda","arch":"sm_90","max_num_threads":1024,"max_shared_memory_per_block":232448,"max_threads_per_block":1024,"registers_per_block":65536,"thread_warp_size":32}');
INSERT INTO trial VALUES (1, 1, 0, 1, 1, 1, 'd8b8756ce8ba05b60fecb81c372cfc7d', '{"fingerprint":"d8b8756ce8ba05b60fecb81c372cfc7d","choices":[["tile","knob",[6,16]],["order","knob","panels"],["block","knob",2],["k_block","knob",0],["unroll_k","knob",4],["pack_a","knob",false],["pack_b","knob","block"]]}', 65536, 'ok', '', 2.8848122246522867e-06, '[2.8848122246522867e-06,2.749151806523332e-06,3.837726107460136e-06]', '', 'f1cf85de32232e5c234af7958df99c3d', '{"lower_s":0.20065005799915525,"build_s":0.16425205300038215,"total_s":1.5982396259987581,"run_s":0.25828789899969706}', '{"cpu":"AMD EPYC","cpus":2,"host":"vm","governor":"unknown","versions":{"python":"3.11.7","whet":"0.1.0","llvmlite":"0.50.0","numpy":"2.4.6"},"load":13.94,"cores":[1],"checked":true,"number":12483,"repeats":3,"spread":0.18867,"stopped":"time"}', 1795352281.4617906);
INSERT INTO trial VALUES (2, 1, 1, 1, 1, 1, 'd8b8756ce8ba05b60fecb81c372cfc7d', '{"fingerprint":"d8b8756ce8ba05b60fecb81c372cfc7d","choices":[["tile","knob",[8,8]],["order","knob","rows"],["block","knob",2],["k_block","knob",32],["unroll_k","knob",4],["pack_a","knob",true],["pack_b","knob","whole"]]}', 65536, 'ok', '', 4.17127007472906e-06, '[3.782533347858007e-06,4.660526436960184e-06,4.17127007472906e-06]', '', '87319f42f1f177a31767539a4c6ecc39', '{"lower_s":0.06087148400001752,"build_s":0.21026359900133684,"total_s":1.7567511289998947,"run_s":0.1588764039988746}', '{"cpu":"AMD EPYC","cpus":2,"host":"vm","governor":"unknown","versions":{"python":"3.11.7","whet":"0.1.0","llvmlite":"0.50.0","numpy":"2.4.6"},"load":13.94,"cores":[1],"checked":true,"number":9116,"repeats":3,"spread":0.10524,"stopped":"time"}', 1795352281.621844);
INSERT INTO trial VALUES (3, 1, 2, 1, 1, 1, 'd8b8756ce8ba05b60fecb81c372cfc7d', '{"fingerprint":"d8b8756ce8ba05b60fecb81c372cfc7d","choices":[["tile","knob",[5,16]],["order","knob","rows"],["block","knob",4],["k_block","knob",32],["unroll_k","knob",2],["pack_a","knob",true],["pack_b","knob","whole"]]}', 65536, 'ok', '', 5.476848056070704e-06, '[5.464600057064614e-06,5.476848056070704e-06,7.085725271581307e-06]', '', '53d86bb47561bed5e379c5188f79dea6', '{"lower_s":0.06861936999848695,"build_s":0.19166597000003094,"total_s":1.9346107540004596,"run_s":0.17842147699957422}', '{"cpu":"AMD EPYC","cpus":2,"host":"vm","governor":"unknown","versions":{"python":"3.11.7","whet":"0.1.0","llvmlite":"0.50.0","numpy":"2.4.6"},"load":13.94,"cores":[1],"checked":true,"number":6996,"repeats":3,"spread":0.148,"stopped":"time"}', 1795352281.841686);
INSERT INTO trial VALUES (4, 1, 3, 1, 1, 1, 'd8b8756ce8ba05b60fecb81c372cfc7d', '{"fingerprint":"d8b8756ce8ba05b60fecb81c372cfc7d","choices":[["tile","knob",[8,8]],["order","knob","panels"],["block","knob",1],["k_block","knob",8],["unroll_k","knob",4],["pack_a","knob",false],["pack_b","knob","whole"]]}', 65536, 'ok', '', 2.760837452770311e-06, '[2.760837452770311e-06,2.41882223154831e-06,2.8776284039104977e-06,2.358513615520575e-06,3.4752003909068836e-06]', '', '118f7d139f793c3dd4b9c3c4e54f9fba', '{"lower_s":0.04886531699958141,"build_s":0.2280595190004533,"total_s":2.397531083999638,"run_s":0.16722816500077897}', '{"cpu":"AMD EPYC","cpus":2,"host":"vm","governor":"unknown","versions":{"python":"3.11.7","whet":"0.1.0","llvmlite":"0.50.0","numpy":"2.4.6"},"load":13.94,"cores":[1],"checked":true,"number":7161,"repeats":5,"spread":0.16618,"stopped":"time"}', 1795352282.305704);
INSERT INTO trial VALUES (5, 1, 4, 1, 1, 1, 'd8b8756ce8ba05b60fecb81c372cfc7d', '{"fingerprint":"d8b8756ce8ba05b60fecb81c372cfc7d","choices":[["tile","knob",[6,16]],["order","knob","rows"],["block","knob",2],["k_block","knob",8],["unroll_k","knob",2],["pack_a","knob",false],["pack_b","knob","whole"]]}', 65536, 'ok', '', 4.339202065017953e-06, '[5.104844123826894e-06,3.573560006209012e-06,2.5541681414998384e-06,7.522103865753828e-06]', '', '1b8ade11b8fa7a2b2982400a26a24b7d', '{"lower_s":0.11853569400045672,"build_s":0.24482179699953122,"total_s":0.950065031000122,"run_s":0.15542789199935214}', '{"cpu":"AMD EPYC","cpus":2,"host":"vm","governor":"unknown","versions":{"python":"3.11.7","whet":"0.1.0","llvmlite":"0.50.0","numpy":"2.4.6"},"load":13.94,"cores":[1],"checked":true,"number":6441,"repeats":4,"spread":0.5509,"stopped":"time"}', 1795352282.7456746);
INSERT INTO trial VALUES (6, 2, 0, 1, 1, 1, 'd8b8756ce8ba05b60fecb81c372cfc7d', '{"fingerprint":"d8b8756ce8ba05b60fecb81c372cfc7d","choices":[["tile","knob",[6,16]],["order","knob","panels"],["block","knob",2],["k_block","knob",0],["unroll_k","knob",4],["pack_a","knob",false],["pack_b","knob","block"]]}', 65536, 'ok', '', 2.3998497941882182e-06, '[3.6025996250322667e-06,2.358947223880436e-06,7.296696487708559e-07,1.8891143249420592e-06,2.4407523644960005e-06,2.4497147051508785e-06]', '', 'f1cf85de32232e5c234af7958df99c3d', '{"lower_s":0.07819159900100203,"build_s":0.1938803029988776,"total_s":3.1431537439984822,"run_s":0.0587346369993611}', '{"cpu":"AMD EPYC","cpus":2,"host":"vm","governor":"unknown","versions":{"python":"3.11.7","whet":"0.1.0","llvmlite":"0.50.0","numpy":"2.4.6"},"load":13.79,"cores":[1],"checked":false,"number":14308,"repeats":6,"spread":0.18372,"stopped":"repeats","unchecked":"switched off"}', 1795352286.0531409);
INSERT INTO trial VALUES (7, 2, 3, 1, 1, 1, 'd8b8756ce8ba05b60fecb81c372cfc7d', '{"fingerprint":"d8b8756ce8ba05b60fecb81c372cfc7d","choices":[["tile","knob",[8,8]],["order","knob","panels"],["block","knob",1],["k_block","knob",8],["unroll_k","knob",4],["pack_a","knob",false],["pack_b","knob","whole"]]}', 65536, 'ok', '', 3.614606151193125e-06, '[6.085051395335032e-06,4.055205788058696e-06,3.402335014442434e-06,2.3907671853934895e-06,3.2446304504520487e-06,3.826877287943816e-06]', '', '118f7d139f793c3dd4b9c3c4e54f9fba', '{"lower_s":0.03523754500020004,"build_s":0.17526851399998122,"total_s":3.1431537439984822,"run_s":0.059468064000611776}', '{"cpu":"AMD EPYC","cpus":2,"host":"vm","governor":"unknown","versions":{"python":"3.11.7","whet":"0.1.0","llvmlite":"0.50.0","numpy":"2.4.6"},"load":13.79,"cores":[1],"checked":false,"number":10162,"repeats":6,"spread":0.19755,"stopped":"repeats","unchecked":"switched off"}', 1795352286.0531583);
INSERT INTO trial VALUES (8, 2, 1, 1, 1, 1, 'd8b8756ce8ba05b60fecb81c372cfc7d', '{"fingerprint":"d8b8756ce8ba05b60fecb81c372cfc7d","choices":[["tile","knob",[8,8]],["order","knob","rows"],["block","knob",2],["k_block","knob",32],["unroll_k","knob",4],["pack_a","knob",true],["pack_b","knob","whole"]]}', 65536, 'ok', '', 3.605385935420246e-06, '[3.8126038994917157e-06,4.823435466648763e-06,4.803567250369214e-06,2.9188783344285056e-06,2.718945702964623e-06,3.3981679713487754e-06]', '', '87319f42f1f177a31767539a4c6ecc39', '{"lower_s":0.058612865999748465,"build_s":0.12006115499934822,"total_s":3.1431537439984822,"run_s":0.06722910799908277}', '{"cpu":"AMD EPYC","cpus":2,"host":"vm","governor":"unknown","versions":{"python":"3.11.7","whet":"0.1.0","llvmlite":"0.50.0","numpy":"2.4.6"},"load":13.79,"cores":[1],"checked":false,"number":11496,"repeats":6,"spread":0.42079,"stopped":"repeats","unchecked":"switched off"}', 1795352286.053164);
INSERT INTO trial VALUES (9, 2, 4, 1, 1, 1, 'd8b8756ce8ba05b60fecb81c372cfc7d', '{"fingerprint":"d8b8756ce8ba05b60fecb81c372cfc7d","choices":[["tile","knob",[6,16]],["order","knob","rows"],["block","knob",2],["k_block","knob",8],["unroll_k","knob",2],["pack_a","knob",false],["pack_b","knob","whole"]]}', 65536, 'ok', '', 4.172458413086974e-06, '[1.3261757582464877e-06,1.3859069778930482e-06,5.591322066807302e-06,3.3995636435336337e-06,4.9453531826403145e-06,5.504479157602612e-06]', '', '1b8ade11b8fa7a2b2982400a26a24b7d', '{"lower_s":0.016553858999031945,"build_s":0.09025491099964711,"total_s":3.1431537439984822,"run_s":0.05574399299985089}', '{"cpu":"AMD EPYC","cpus":2,"host":"vm","governor":"unknown","versions":{"python":"3.11.7","whet":"0.1.0","llvmlite":"0.50.0","numpy":"2.4.6"},"load":13.79,"cores":[1],"checked":false,"number":6885,"repeats":6,"spread":0.83293,"stopped":"repeats","unchecked":"switched off"}', 1795352286.0531714);
INSERT INTO trial VALUES (10, 2, 2, 1, 1, 1, 'd8b8756ce8ba05b60fecb81c372cfc7d', '{"fingerprint":"d8b8756ce8ba05b60fecb81c372cfc7d","choices":[["tile","knob",[5,16]],["order","knob","rows"],["block","knob",4],["k_block","knob",32],["unroll_k","knob",2],["pack_a","knob",true],["pack_b","knob","whole"]]}', 65536, 'ok', '', 5.459704806860459e-06, '[6.408049337818592e-06,5.675557466350994e-06,5.244355948771232e-06,2.460981840342769e-06,5.6750536649496854e-06,4.318224110482191e-06]', '', '53d86bb47561bed5e379c5188f79dea6', '{"lower_s":0.05819885199889541,"build_s":0.18288495300112118,"total_s":3.1431537439984822,"run_s":0.05615683500036539}', '{"cpu":"AMD EPYC","cpus":2,"host":"vm","governor":"unknown","versions":{"python":"3.11.7","whet":"0.1.0","llvmlite":"0.50.0","numpy":"2.4.6"},"load":13.79,"cores":[1],"checked":false,"number":7532,"repeats":6,"spread":0.20618,"stopped":"repeats","unchecked":"switched off"}', 1795352286.0531754);
INSERT INTO trial VALUES (11, 3, 0, 2, 1, 1, '49d92225a066842ba3c6445966b1bc28', '{"fingerprint":"49d92225a066842ba3c6445966b1bc28","choices":[["algorithm","knob","direct"],["tile","knob",["width",4,3,8]],["outer","knob","rows"],["unroll","knob","rx"],["pad_at","knob","image"],["columns.tile","knob",[4,24]],["columns.order","knob","pixels"],["columns.block","knob",1],["columns.copy","knob",true],["columns.unroll","knob",1],["winograd.tile","knob",[9,8]],["winograd.block","knob",1],["winograd.order","knob","panels"],["winograd.unroll_k","knob",1]]}', 46656, 'ok', '', 5.455037703978767e-06, '[5.40755599327822e-06,5.455037703978767e-06,6.863278840667697e-06]', '', '7d2683db7bbcd39acfd766ae237111dc', '{"lower_s":0.07532444800017402,"build_s":0.2213188470013847,"total_s":3.9275297909989604,"run_s":0.21292842899856623}', '{"cpu":"AMD EPYC","cpus":2,"host":"vm","governor":"unknown","versions":{"python":"3.11.7","whet":"0.1.0","llvmlite":"0.50.0","numpy":"2.4.6"},"load":13.8,"cores":[1],"checked":true,"number":7108,"repeats":3,"spread":0.13343,"stopped":"time"}', 1795352292.3746734);
INSERT INTO trial VALUES (12, 3, 1, 2, 1, 1, '49d92225a066842ba3c6445966b1bc28', '{"fingerprint":"49d92225a066842ba3c6445966b1bc28","choices":[["algorithm","knob","direct"],["tile","knob",["channels",8,3,4]],["outer","knob","rows"],["unroll","knob","rx"],["pad_at","knob","rows"],["columns.tile","knob",[4,24]],["columns.order","knob","pixels"],["columns.block","knob",1],["columns.copy","knob",true],["columns.unroll","knob",1],["winograd.tile","knob",[9,8]],["winograd.block","knob",1],["winograd.order","knob","panels"],["winograd.unroll_k","knob",1]]}', 46656, 'ok', '', 4.710852023324589e-06, '[7.861458115736835e-06,2.856948185886696e-06,4.710852023324589e-06]', '', 'dfdf10a3a2b981eb45207fde85bdeb4e', '{"lower_s":0.05316291700000875,"build_s":0.16321070900085033,"total_s":0.5495522910005093,"run_s":0.11899717900087126}', '{"cpu":"AMD EPYC","cpus":2,"host":"vm","governor":"unknown","versions":{"python":"3.11.7","whet":"0.1.0","llvmlite":"0.50.0","numpy":"2.4.6"},"load":13.8,"cores":[1],"checked":true,"number":6697,"repeats":3,"spread":0.53117,"stopped":"time"}', 1795352292.7133985);
INSERT INTO trial VALUES (13, 3, 2, 2, 1, 1, '49d92225a066842ba3c6445966b1bc28', '{"fingerprint":"49d92225a066842ba3c6445966b1bc28","choices":[["algorithm","knob","direct"],["tile","knob",["channels",8,2,5]],["outer","knob","rows"],["unroll","knob","ry rx"],["pad_at","knob","rows"],["columns.tile","knob",[4,24]],["columns.order","knob","pixels"],["columns.block","knob",1],["columns.copy","knob",true],["columns.unroll","knob",1],["winograd.tile","knob",[9,8]],["winograd.block","knob",1],["winograd.order","knob","panels"],["winograd.unroll_k","knob",1]]}', 46656, 'ok', '', 6.279493693859023e-06, '[6.447502277231733e-06,6.111485110486313e-06]', '', 'f065ef297171c470a83d2c1214a256f8', '{"lower_s":0.05586493199916731,"build_s":0.24154634200021974,"total_s":0.8958855260007113,"run_s":0.13134338999952888}', '{"cpu":"AMD EPYC","cpus":2,"host":"vm","governor":"unknown","versions":{"python":"3.11.7","whet":"0.1.0","llvmlite":"0.50.0","numpy":"2.4.6"},"load":13.8,"cores":[1],"checked":true,"number":8563,"repeats":2,"spread":0.02676,"stopped":"time"}', 1795352293.0816762);
INSERT INTO trial VALUES (14, 3, 3, 2, 1, 1, '49d92225a066842ba3c6445966b1bc28', '{"fingerprint":"49d92225a066842ba3c6445966b1bc28","choices":[["algorithm","knob","direct"],["tile","knob",["channels",8,3,2]],["outer","knob","channels"],["unroll","knob","ry rx"],["pad_at","knob","rows"],["columns.tile","knob",[4,24]],["columns.order","knob","pixels"],["columns.block","knob",1],["columns.copy","knob",true],["columns.unroll","knob",1],["winograd.tile","knob",[9,8]],["winograd.block","knob",1],["winograd.order","knob","panels"],["winograd.unroll_k","knob",1]]}', 46656, 'ok', '', 2.5161509812154823e-06, '[2.864253496685667e-06,2.1680484657452973e-06,3.6576228992368428e-06,2.039511438766662e-06]', '', '739a9abd263b1cf8a2b0ec89c5a2dde9', '{"lower_s":0.07487701500031108,"build_s":0.2514182160011842,"total_s":1.3392235179999261,"run_s":0.14354810199984058}', '{"cpu":"AMD EPYC","cpus":2,"host":"vm","governor":"unknown","versions":{"python":"3.11.7","whet":"0.1.0","llvmlite":"0.50.0","numpy":"2.4.6"},"load":13.8,"cores":[1],"checked":true,"number":9223,"repeats":4,"spread":0.36829,"stopped":"time"}', 1795352293.5257323);
INSERT INTO trial VALUES (15, 3, 4, 2, 1, 1, '49d92225a066842ba3c6445966b1bc28', '{"fingerprint":"49d92225a066842ba3c6445966b1bc28","choices":[["algorithm","knob","direct"],["tile","knob",["width",4,3,8]],["outer","knob","rows"],["unroll","knob","ry rx"],["pad_at","knob","image"],["columns.tile","knob",[4,24]],["columns.order","knob","pixels"],["columns.block","knob",1],["columns.copy","knob",true],["columns.unroll","knob",1],["winograd.tile","knob",[9,8]],["winograd.block","knob",1],["winograd.order","knob","panels"],["winograd.unroll_k","knob",1]]}', 46656, 'ok', '', 4.736575016456162e-06, '[5.986276815149974e-06,3.5441197632172892e-06,4.736575016456162e-06]', '', '30a368df575e43f4a87d3ee8cc6d0b11', '{"lower_s":0.09952588499982085,"build_s":0.2610138590007409,"total_s":0.6190947889990639,"run_s":0.15383658399878186}', '{"cpu":"AMD EPYC","cpus":2,"host":"vm","governor":"unknown","versions":{"python":"3.11.7","whet":"0.1.0","llvmlite":"0.50.0","numpy":"2.4.6"},"load":13.8,"cores":[1],"checked":true,"number":9118,"repeats":3,"spread":0.2578,"stopped":"time"}', 1795352294.4056475);
INSERT INTO trial VALUES (16, 4, 0, 2, 1, 1, '49d92225a066842ba3c6445966b1bc28', '{"fingerprint":"49d92225a066842ba3c6445966b1bc28","choices":[["algorithm","knob","direct"],["tile","knob",["width",4,3,8]],["outer","knob","rows"],["unroll","knob","rx"],["pad_at","knob","image"],["columns.tile","knob",[4,24]],["columns.order","knob","pixels"],["columns.block","knob",1],["columns.copy","knob",true],["columns.unroll","knob",1],["winograd.tile","knob",[9,8]],["winograd.block","knob",1],["winograd.order","knob","panels"],["winograd.unroll_k","knob",1]]}', 46656, 'ok', '', 3.2378940343203044e-06, '[1.615174844130323e-06,4.744089682380201e-06,1.7316983862604073e-06,1.4447494531989787e-06,6.971807125599052e-06,5.876438428515966e-06]', '', '7d2683db7bbcd39acfd766ae237111dc', '{"lower_s":0.07243260199902579,"build_s":0.1882186000002548,"total_s":3.0668034400005126,"run_s":0.11047841999970842}', '{"cpu":"AMD EPYC","cpus":2,"host":"vm","governor":"unknown","versions":{"python":"3.11.7","whet":"0.1.0","llvmlite":"0.50.0","numpy":"2.4.6"},"load":13.58,"cores":[1],"checked":false,"number":7203,"repeats":6,"spread":1.21963,"stopped":"repeats","unchecked":"switched off"}', 1795352297.5249343);
INSERT INTO trial VALUES (17, 4, 3, 2, 1, 1, '49d92225a066842ba3c6445966b1bc28', '{"fingerprint":"49d92225a066842ba3c6445966b1bc28","choices":[["algorithm","knob","direct"],["tile","knob",["channels",8,3,2]],["outer","knob","channels"],["unroll","knob","ry rx"],["pad_at","knob","rows"],["columns.tile","knob",[4,24]],["columns.order","knob","pixels"],["columns.block","knob",1],["columns.copy","knob",true],["columns.unroll","knob",1],["winograd.tile","knob",[9,8]],["winograd.block","knob",1],["winograd.order","knob","panels"],["winograd.unroll_k","knob",1]]}', 46656, 'ok', '', 3.1836253995514335e-06, '[3.6263559195925004e-06,2.434268097188397e-06,1.0986155395231444e-06,6.811942681011877e-06,2.740894879510366e-06,4.216310348366335e-06]', '', '739a9abd263b1cf8a2b0ec89c5a2dde9', '{"lower_s":0.05626303300050495,"build_s":0.17825685299976612,"total_s":3.0668034400005126,"run_s":0.07072727400009171}', '{"cpu":"AMD EPYC","cpus":2,"host":"vm","governor":"unknown","versions":{"python":"3.11.7","whet":"0.1.0","llvmlite":"0.50.0","numpy":"2.4.6"},"load":13.58,"cores":[1],"checked":false,"number":9963,"repeats":6,"spread":0.48935,"stopped":"repeats","unchecked":"switched off"}', 1795352297.524951);
INSERT INTO trial VALUES (18, 4, 1, 2, 1, 1, '49d92225a066842ba3c6445966b1bc28', '{"fingerprint":"49d92225a066842ba3c6445966b1bc28","choices":[["algorithm","knob","direct"],["tile","knob",["channels",8,3,4]],["outer","knob","rows"],["unroll","knob","rx"],["pad_at","knob","rows"],["columns.tile","knob",[4,24]],["columns.order","knob","pixels"],["columns.block","knob",1],["columns.copy","knob",true],["columns.unroll","knob",1],["winograd.tile","knob",[9,8]],["winograd.block","knob",1],["winograd.order","knob","panels"],["winograd.unroll_k","knob",1]]}', 46656, 'ok', '', 1.7084190331033515e-06, '[1.5067919171387386e-06,1.0458670108627757e-06,1.910046149067964e-06,1.4991040079621598e-06,3.0446462473251423e-06,2.8206260987996526e-06]', '', 'dfdf10a3a2b981eb45207fde85bdeb4e', '{"lower_s":0.03634057000090252,"build_s":0.0985052319992974,"total_s":3.0668034400005126,"run_s":0.05616582899892819}', '{"cpu":"AMD EPYC","cpus":2,"host":"vm","governor":"unknown","versions":{"python":"3.11.7","whet":"0.1.0","llvmlite":"0.50.0","numpy":"2.4.6"},"load":13.58,"cores":[1],"checked":false,"number":7395,"repeats":6,"spread":0.63916,"stopped":"repeats","unchecked":"switched off"}', 1795352297.5249572);
INSERT INTO trial VALUES (19, 4, 4, 2, 1, 1, '49d92225a066842ba3c6445966b1bc28', '{"fingerprint":"49d92225a066842ba3c6445966b1bc28","choices":[["algorithm","knob","direct"],["tile","knob",["width",4,3,8]],["outer","knob","rows"],["unroll","knob","ry rx"],["pad_at","knob","image"],["columns.tile","knob",[4,24]],["columns.order","knob","pixels"],["columns.block","knob",1],["columns.copy","knob",true],["columns.unroll","knob",1],["winograd.tile","knob",[9,8]],["winograd.block","knob",1],["winograd.order","knob","panels"],["winograd.unroll_k","knob",1]]}', 46656, 'ok', '', 3.1079086935728907e-06, '[4.8591627156746215e-06,1.091235412009036e-06,1.3566546714711598e-06,5.073695293739042e-06,1.2905787689430315e-06,5.80220243002368e-06]', '', '30a368df575e43f4a87d3ee8cc6d0b11', '{"lower_s":0.029777069999909145,"build_s":0.1452867090010841,"total_s":3.0668034400005126,"run_s":0.07740371199906804}', '{"cpu":"AMD EPYC","cpus":2,"host":"vm","governor":"unknown","versions":{"python":"3.11.7","whet":"0.1.0","llvmlite":"0.50.0","numpy":"2.4.6"},"load":13.58,"cores":[1],"checked":false,"number":7736,"repeats":6,"spread":1.19468,"stopped":"repeats","unchecked":"switched off"}', 1795352297.5249627);
INSERT INTO trial VALUES (20, 4, 2, 2, 1, 1, '49d92225a066842ba3c6445966b1bc28', '{"fingerprint":"49d92225a066842ba3c6445966b1bc28","choices":[["algorithm","knob","direct"],["tile","knob",["channels",8,2,5]],["outer","knob","rows"],["unroll","knob","ry rx"],["pad_at","knob","rows"],["columns.tile","knob",[4,24]],["columns.order","knob","pixels"],["columns.block","knob",1],["columns.copy","knob",true],["columns.unroll","knob",1],["winograd.tile","knob",[9,8]],["winograd.block","knob",1],["winograd.order","knob","panels"],["winograd.unroll_k","knob",1]]}', 46656, 'ok', '', 3.909346215690419e-06, '[4.501177040719535e-06,3.7836502224222132e-06,3.6124389485105095e-06,4.035042208958624e-06,3.6757486863065366e-06,5.53348270007673e-06]', '', 'f065ef297171c470a83d2c1214a256f8', '{"lower_s":0.06280651199995191,"build_s":0.2230468430007022,"total_s":3.0668034400005126,"run_s":0.08203048900031717}', '{"cpu":"AMD EPYC","cpus":2,"host":"vm","governor":"unknown","versions":{"python":"3.11.7","whet":"0.1.0","llvmlite":"0.50.0","numpy":"2.4.6"},"load":13.58,"cores":[1],"checked":false,"number":7659,"repeats":6,"spread":0.17443,"stopped":"repeats","unchecked":"switched off"}', 1795352297.5249672);
INSERT INTO whet_version VALUES ('0001');
INSERT INTO workload VALUES (1, '921916c53600b2955a335c13cbc6a9337697bb9949d8d93173e8b1e0cf5de698', 'dense', '{"template":"dense","args":[16,64,32,"float32",[],false]}');
INSERT INTO workload VALUES (2, '39c59ef4e4444e5c4dc16407f5b476c3a05b2640a8641fc87198b7b9b4d64f61', 'conv2d_nchw', '{"template":"conv2d_nchw","args":[1,4,9,9,8,3,3,[1,1],[1,1],[1,1],1,"float32",[],false]}');
SELECT pg_catalog.setval('device_id_seq', 3, true);
SELECT pg_catalog.setval('run_id_seq', 4, true);
SELECT pg_catalog.setval('target_id_seq', 3, true);
SELECT pg_catalog.setval('trial_id_seq', 20, true);
SELECT pg_catalog.setval('workload_id_seq', 2, true);
ALTER TABLE ONLY device
    ADD CONSTRAINT pk_device PRIMARY KEY (id);
ALTER TABLE ONLY run
    ADD CONSTRAINT pk_run PRIMARY KEY (id);
ALTER TABLE ONLY target
    ADD CONSTRAINT pk_target PRIMARY KEY (id);
ALTER TABLE ONLY trial
    ADD CONSTRAINT pk_trial PRIMARY KEY (id);
ALTER TABLE ONLY workload
    ADD CONSTRAINT pk_workload PRIMARY KEY (id);
ALTER TABLE ONLY device
    ADD CONSTRAINT uq_device_digest UNIQUE (digest);
ALTER TABLE ONLY run
    ADD CONSTRAINT uq_run_uid UNIQUE (uid);
ALTER TABLE ONLY target
    ADD CONSTRAINT uq_target_digest UNIQUE (digest);
ALTER TABLE ONLY trial
    ADD CONSTRAINT uq_trial_run_id_number UNIQUE (run_id, number);
ALTER TABLE ONLY workload
    ADD CONSTRAINT uq_workload_digest UNIQUE (digest);
ALTER TABLE ONLY whet_version
    ADD CONSTRAINT whet_version_pkc PRIMARY KEY (version_num);
CREATE INDEX ix_trial_best ON trial USING btree (workload_id, target_id, device_id, space_fingerprint, cost, id, status) WHERE (status = 'ok'::text);
CREATE INDEX ix_trial_program ON trial USING btree (device_id, program_hash) WHERE (program_hash <> ''::text);
CREATE INDEX ix_trial_task ON trial USING btree (workload_id, target_id, device_id, space_fingerprint);
ALTER TABLE ONLY run
    ADD CONSTRAINT fk_run_device_id FOREIGN KEY (device_id) REFERENCES device(id);
ALTER TABLE ONLY run
    ADD CONSTRAINT fk_run_target_id FOREIGN KEY (target_id) REFERENCES target(id);
ALTER TABLE ONLY run
    ADD CONSTRAINT fk_run_workload_id FOREIGN KEY (workload_id) REFERENCES workload(id);
ALTER TABLE ONLY trial
    ADD CONSTRAINT fk_trial_device_id FOREIGN KEY (device_id) REFERENCES device(id);
ALTER TABLE ONLY trial
    ADD CONSTRAINT fk_trial_run_id FOREIGN KEY (run_id) REFERENCES run(id);
ALTER TABLE ONLY trial
    ADD CONSTRAINT fk_trial_target_id FOREIGN KEY (target_id) REFERENCES target(id);
ALTER TABLE ONLY trial
    ADD CONSTRAINT fk_trial_workload_id FOREIGN KEY (workload_id) REFERENCES workload(id);
